//! The screen of the terminal, and its keys. Pure: a key changes the state, and the state is drawn.

use std::time::Duration;

use ebb_report::terminal_style::Colour;
use ebb_telemetry::safe_text::{clip, counted, wrap};
use ebb_telemetry::step::{StepId, StepKind, TaskState};
use ebb_telemetry::units::{Bytes, HumanDuration};
use ebb_telemetry::watch::WatchScope;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Table, TableState, Wrap};

use super::model::{NodeView, SortKey, TaskRow, select};

/// Maximum characters of a filter.
const MAX_FILTER: usize = 64;

const HELP: &str = "\
c m d n w  sort by cores, memory, disk, network, waits
Up Down    select a task (also j k, PgUp PgDn, Home End)
Enter      show the tools and waits of the task
/          filter by name; Enter keeps it, Esc clears it
?          this page
q Esc      back, or quit; Ctrl-C quits

CORES      busy cores since the last update
MEM        memory now, PEAK at most, REQ requested
DISK NET   bytes a second; - is unknown
STATE      where the task was in most samples; net fs is a
           network or FUSE file system
TIME       since the start of the task";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    Tasks,
    Filter,
    Task,
    Help,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyResult {
    Continue,
    Quit,
}

/// The state of the terminal program.
pub(crate) struct Screen {
    pub(crate) view: Option<NodeView>,
    pub(crate) page: Page,
    sort: SortKey,
    filter: String,
    /// The selected task, which keeps the selection if the order changes.
    selected: Option<StepId>,
    table: TableState,
    colour: Colour,
}

fn id(row: &TaskRow) -> StepId {
    StepId {
        kind: row.kind,
        key: row.key.clone(),
    }
}

impl Screen {
    pub(crate) fn new(colour: Colour) -> Self {
        Self {
            view: None,
            page: Page::Tasks,
            sort: SortKey::Cores,
            filter: String::new(),
            selected: None,
            table: TableState::default(),
            colour,
        }
    }

    fn rows(&self) -> Vec<&TaskRow> {
        let rows = self.view.as_ref().map(|view| view.tasks.as_slice());
        select(rows.unwrap_or_default(), self.sort, &self.filter)
    }

    fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows().iter().position(|row| id(row) == *selected)
    }

    fn move_by(&mut self, by: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let to = match self.position() {
            Some(now) => now.saturating_add_signed(by).min(last),
            None => 0,
        };
        self.selected = rows.get(to).map(|row| id(row));
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> KeyResult {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => KeyResult::Quit,
                _ => KeyResult::Continue,
            };
        }
        match self.page {
            Page::Filter => self.filter_key(key.code),
            Page::Tasks => return self.table_key(key.code),
            Page::Task | Page::Help => {
                if matches!(
                    key.code,
                    KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?')
                ) {
                    self.page = Page::Tasks;
                }
            }
        }
        KeyResult::Continue
    }

    fn filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) if self.filter.chars().count() < MAX_FILTER && !c.is_control() => {
                self.filter.push(c);
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Enter => self.page = Page::Tasks,
            KeyCode::Esc => {
                self.filter.clear();
                self.page = Page::Tasks;
            }
            _ => {}
        }
    }

    fn table_key(&mut self, code: KeyCode) -> KeyResult {
        const PAGE: isize = 10;
        match code {
            KeyCode::Char('q') => return KeyResult::Quit,
            KeyCode::Esc if self.filter.is_empty() => return KeyResult::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('c') => self.sort = SortKey::Cores,
            KeyCode::Char('m') => self.sort = SortKey::Memory,
            KeyCode::Char('d') => self.sort = SortKey::Disk,
            KeyCode::Char('n') => self.sort = SortKey::Network,
            KeyCode::Char('w') => self.sort = SortKey::Waits,
            KeyCode::Char('/') => self.page = Page::Filter,
            KeyCode::Char('?') => self.page = Page::Help,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(PAGE),
            KeyCode::PageUp => self.move_by(-PAGE),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            KeyCode::Enter => {
                if self.position().is_none() {
                    self.move_by(0);
                }
                if self.selected.is_some() {
                    self.page = Page::Task;
                }
            }
            _ => {}
        }
        KeyResult::Continue
    }

    fn style(&self, colour: Color) -> Style {
        match self.colour {
            Colour::Plain => Style::new(),
            Colour::Ansi => Style::new().fg(colour),
        }
    }

    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>) {
        let Some(view) = &self.view else {
            return frame.render_widget(Paragraph::new("waiting for the probe"), frame.area());
        };
        let width = usize::from(frame.area().width);
        let head = header(view).into_iter();
        let head = head.flat_map(|line| wrap(&line, width)).map(Line::from);
        let head = Text::from(head.collect::<Vec<_>>());
        let lines = u16::try_from(head.lines.len()).unwrap_or(u16::MAX);
        let parts = [
            Constraint::Length(lines),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [top, middle, bottom] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(Paragraph::new(head).style(self.style(Color::Cyan)), top);
        match self.page {
            Page::Help => frame.render_widget(paragraph(HELP.to_owned()), middle),
            Page::Task => frame.render_widget(paragraph(self.task_text()), middle),
            Page::Tasks | Page::Filter => self.draw_table(frame, middle),
        }
        let foot = match self.page {
            Page::Filter => format!("/{}_", self.filter),
            Page::Tasks if !self.filter.is_empty() => {
                format!("filter {}  Esc clear  ? help  q quit", self.filter)
            }
            Page::Tasks => format!(
                "by {}  c m d n w sort  Enter task  / filter  ? help  q quit",
                self.sort.name()
            ),
            Page::Task | Page::Help => "q back".to_owned(),
        };
        let foot = Paragraph::new(foot).style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_widget(foot, bottom);
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let position = self.position();
        let rows = self.rows();
        let (shown, name_width) = columns(area.width);
        let cell = |column: &&Column, text: String| match column.side {
            TextSide::Left => Text::from(text),
            TextSide::Right => Text::from(text).right_aligned(),
        };
        let cells = |row: &&TaskRow| {
            let others = shown.iter().map(|column| cell(column, (column.cell)(row)));
            let name = Text::from(fit(&row.name, usize::from(name_width)));
            Row::new([name].into_iter().chain(others))
        };
        let body: Vec<Row<'static>> = rows.iter().map(cells).collect();
        let widths = shown.iter().map(|column| column.width);
        let widths = [name_width].into_iter().chain(widths);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let heads = shown
            .iter()
            .map(|column| cell(column, column.head.to_owned()));
        let head = Row::new([Text::from(NAME)].into_iter().chain(heads)).style(bold);
        let table = Table::new(body, widths.map(Constraint::Length))
            .header(head)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        self.table.select(position);
        frame.render_stateful_widget(table, area, &mut self.table);
    }

    fn task_text(&self) -> String {
        let selected = self.selected.as_ref();
        let rows = self.view.as_ref().map(|view| view.tasks.as_slice());
        let mut rows = rows.unwrap_or_default().iter();
        match rows.find(|row| Some(&id(row)) == selected) {
            Some(row) => details(row),
            None => "the task ended".to_owned(),
        }
    }
}

const NAME: &str = "NAME";

/// Width of the names in `ebb top --once`.
const PLAIN_NAME: usize = 30;

/// One column after the name. The table leaves out columns from the end of [`COLUMNS`] if they do not
/// fit.
struct Column {
    head: &'static str,
    width: u16,
    side: TextSide,
    cell: fn(&TaskRow) -> String,
}

/// The side of a column where its text is.
#[derive(Clone, Copy)]
enum TextSide {
    Left,
    Right,
}

const fn amounts(head: &'static str, width: u16, cell: fn(&TaskRow) -> String) -> Column {
    Column {
        head,
        width,
        side: TextSide::Right,
        cell,
    }
}

const COLUMNS: [Column; 9] = [
    amounts("CORES", 6, |row| cores(row.cores)),
    amounts("MEM", 9, |row| amount(row.memory_bytes)),
    Column {
        head: "STATE",
        width: 12,
        side: TextSide::Left,
        cell: |row| unknown(row.states.first(), |one| short_state(one.state).to_owned()),
    },
    amounts("DISK/s", 9, |row| rate(row.disk_bytes_per_second)),
    amounts("NET/s", 9, |row| rate(row.network_bytes_per_second)),
    amounts("TIME", 7, |row| short_age(row.running_seconds)),
    amounts("PEAK", 9, |row| amount(row.peak_memory_bytes)),
    amounts("REQ", 9, |row| amount(row.requested_memory_bytes)),
    amounts("GPU", 5, |row| cores(row.busy_gpus)),
];

/// The columns that fit next to names of a readable width, and the width of the names.
fn columns(width: u16) -> (Vec<&'static Column>, u16) {
    let least = if width < 60 { 14 } else { 20 };
    let mut names = width;
    let fits = |column: &&Column| match names.checked_sub(column.width + 1) {
        Some(rest) if rest >= least => {
            names = rest;
            true
        }
        _ => false,
    };
    let shown = COLUMNS.iter().take_while(fits).collect();
    (shown, names)
}

/// The name in at most `width` characters. Names of tasks differ at their end more often than at their
/// begin, so the middle is left out.
fn fit(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return name.to_owned();
    }
    let end = width.saturating_sub(1) * 2 / 3;
    let begin = width.saturating_sub(1) - end;
    let begin: String = name.chars().take(begin).collect();
    let end: String = name.chars().skip(count - end).collect();
    format!("{begin}…{end}")
}

/// Text whose long lines continue on the next one.
fn paragraph(text: String) -> Paragraph<'static> {
    Paragraph::new(text).wrap(Wrap { trim: false })
}

fn unknown<T>(value: Option<T>, shown: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

fn cores(value: Option<f64>) -> String {
    unknown(value, |value| format!("{value:.2}"))
}

/// Without the space, to be narrow: `1.5GiB`.
fn amount(value: Option<Bytes>) -> String {
    unknown(value, |bytes| bytes.to_string().replace(' ', ""))
}

fn rate(value: Option<f64>) -> String {
    amount(value.map(|bytes| Bytes(bytes as u64)))
}

fn age(seconds: u64) -> String {
    HumanDuration(Duration::from_secs(seconds)).to_string()
}

/// At most 7 characters for less than 1,000 days: `47h59m`.
fn short_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A state in at most 12 characters. The page of a task has it in full.
const fn short_state(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Runnable => "wait core",
        TaskState::PageFault => "page faults",
        TaskState::Disk => "wait disk",
        TaskState::RemoteFileSystem => "wait net fs",
        TaskState::Network => "wait network",
        TaskState::Pipe => "wait pipe",
        TaskState::Poll => "wait events",
        TaskState::Timer => "sleeping",
        TaskState::Lock => "wait lock",
        TaskState::Child => "wait child",
        TaskState::Other => "wait other",
    }
}

/// The name of a kind, as in JSON.
fn kind(kind: StepKind) -> String {
    let json = serde_json::to_value(kind).ok();
    let text = json.as_ref().and_then(|value| value.as_str());
    text.unwrap_or_default().replace('_', " ")
}

/// Lines above the table.
fn header(view: &NodeView) -> Vec<String> {
    let tasks = view.tasks.len() as u64 + view.tasks_left_out;
    let scope = match view.scope {
        WatchScope::All => "all users",
        WatchScope::Own => "only yours",
    };
    let mut lines = vec![
        format!(
            "{}, {} ({scope})",
            view.node,
            counted(
                usize::try_from(tasks).unwrap_or(usize::MAX),
                "task",
                "tasks"
            )
        ),
        format!(
            "cores {} of {}, memory {} of {}, disk {}, net {}",
            cores(view.busy_cores),
            view.cores,
            amount(view.memory_used_bytes),
            amount(Some(view.memory_bytes)),
            unknown(view.disk_bytes_per_second, |bytes| rate(Some(bytes)) + "/s"),
            unknown(view.network_bytes_per_second, |bytes| rate(Some(bytes))
                + "/s"),
        ),
    ];
    if !view.gpus.is_empty() {
        let gpus = view.gpus.iter().map(|gpu| {
            let busy = unknown(gpu.busy, |busy| format!("{:.0} %", busy * 100.0));
            format!(
                "GPU {} {busy} {}",
                gpu.number,
                amount(gpu.memory_used_bytes)
            )
        });
        lines.push(gpus.collect::<Vec<_>>().join(", "));
    }
    if view.tasks_left_out > 0 {
        lines.push(format!("not shown: {}", view.tasks_left_out));
    }
    if view.sampled_because.is_some() {
        lines.push("eBPF does not run here: short processes are missing".to_owned());
    }
    lines
}

fn details(row: &TaskRow) -> String {
    let mut lines = vec![
        format!("{}  ({} {})", row.name, kind(row.kind), row.key),
        format!(
            "user {}  running for {}  no progress for {}  {} processes",
            unknown(row.user, |user| user.to_string()),
            age(row.running_seconds),
            age(row.no_progress_seconds),
            row.processes
        ),
        format!(
            "cores {} of {} requested",
            cores(row.cores),
            cores(row.requested_cores)
        ),
        format!(
            "memory {} now, {} at most, {} requested",
            amount(row.memory_bytes),
            amount(row.peak_memory_bytes),
            amount(row.requested_memory_bytes)
        ),
        String::new(),
        "TOOL                  CORES     CPU  PROCESSES     PEAK".to_owned(),
    ];
    lines.extend(row.tools.iter().map(|tool| {
        format!(
            "{:<20} {:>6} {:>6.0}s {:>10} {:>8}",
            clip(&tool.name, 20),
            cores(tool.cores),
            tool.cpu_seconds,
            tool.processes,
            amount(tool.peak_memory_bytes)
        )
    }));
    lines.push(String::new());
    lines.push("SHARE  STATE since the last update".to_owned());
    lines.extend(
        (row.states.iter()).map(|one| format!("{:>4.0} %  {}", one.share * 100.0, one.state)),
    );
    lines.join("\n")
}

/// The view as plain text.
pub(crate) fn plain(view: &NodeView) -> String {
    let mut lines = header(view);
    lines.push(String::new());
    let line = |name: &str, cells: Vec<String>| {
        let padded = COLUMNS.iter().zip(cells).map(|(column, cell)| {
            let width = usize::from(column.width);
            let cell = clip(&cell, width);
            match column.side {
                TextSide::Left => format!("{cell:<width$}"),
                TextSide::Right => format!("{cell:>width$}"),
            }
        });
        let padded = padded.collect::<Vec<_>>().join(" ");
        format!(
            "{:<PLAIN_NAME$} {}",
            fit(name, PLAIN_NAME),
            padded.trim_end()
        )
    };
    let heads = COLUMNS.iter().map(|column| column.head.to_owned());
    lines.push(line(NAME, heads.collect()));
    for row in select(&view.tasks, SortKey::Cores, "") {
        let cells = COLUMNS.iter().map(|column| (column.cell)(row));
        lines.push(line(&row.name, cells.collect()));
    }
    lines.join("\n") + "\n"
}
