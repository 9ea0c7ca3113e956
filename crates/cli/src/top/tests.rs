//! Rows, keys and the layout, on made-up snapshots.

use ebb_report::terminal_style::Colour;
use ebb_telemetry::watch::{SCHEMA, WatchSnapshot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::model::{SortKey, select, view};
use super::screen::{KeyResult, Page, Screen, plain};

const S: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

fn task(key: &str, name: &str, cpu_ms: u64, memory_mib: u64) -> Value {
    json!({
        "id": {"kind": "tree", "key": key}, "name": name, "user": 1000,
        "started_ns": S, "last_progress_ns": 9 * S, "processes": 3, "cpu_ns": cpu_ms * 1_000_000,
        "memory_bytes": memory_mib * MIB, "peak_memory_bytes": 2 * memory_mib * MIB,
        "disk_read_bytes": 0, "disk_written_bytes": cpu_ms * 1_000,
        "state_samples": {"running": cpu_ms / 1_000, "disk": 2},
        "tools": [{"name": "bwa", "processes": 2, "cpu_ns": cpu_ms * 1_000_000}],
    })
}

fn snapshot(at: u64, tasks: &[Value]) -> WatchSnapshot {
    let snapshot = json!({
        "schema": SCHEMA, "node": "host7", "scope": "own", "at_ns": at * S,
        "totals": {"milli_cores": 8_000, "cpu_ns": at * 3 * S, "memory_bytes": 16_384 * MIB,
            "memory_used_bytes": 4_096 * MIB, "disk_read_bytes": at * MIB, "disk_written_bytes": 0,
            "gpus": []},
        "tasks": tasks, "tasks_left_out": 1, "clients": {"connected": 1, "refused": 0, "dropped": 0},
    });
    serde_json::from_value(snapshot).expect("a snapshot")
}

fn pair() -> [WatchSnapshot; 2] {
    let before = [task("1", "align", 1_000, 100), task("2", "sort", 500, 900)];
    let now = [
        task("1", "align", 4_000, 100),
        task("2", "sort", 500, 900),
        // Started before the first snapshot, which did not contain it.
        task("3", "x\u{1b}[2J", 100, 5),
    ];
    [snapshot(10, &before), snapshot(12, &now)]
}

#[test]
fn rates_are_differences_and_what_is_not_known_is_not_zero() {
    let [before, now] = pair();
    let both = view(Some(&before), &now);
    assert_eq!(both.busy_cores, Some(3.0));
    assert_eq!(both.disk_bytes_per_second, Some(MIB as f64));
    assert_eq!(both.network_bytes_per_second, None);
    let cores: Vec<_> = both.tasks.iter().map(|row| row.cores).collect();
    assert_eq!(cores, [Some(1.5), Some(0.0), None]);
    assert_eq!(both.tasks[0].disk_bytes_per_second, Some(1_500_000.0));
    assert_eq!(both.tasks[0].network_bytes_per_second, None);
    assert_eq!(both.tasks[0].waits(), Some(0.0));
    assert_eq!(both.tasks[1].waits(), None);
    assert_eq!(both.tasks[0].tools[0].cores, Some(1.5));
    assert_eq!(both.tasks[2].name, "x\u{FFFD}[2J");
    // A counter that decreased, and a snapshot that is not older.
    let back = view(Some(&snapshot(10, &[task("1", "align", 9_000, 1)])), &now);
    assert_eq!(back.tasks[0].cores, None);
    for same in [None, Some(&now)] {
        let alone = view(same, &now);
        assert_eq!((alone.busy_cores, alone.tasks[0].cores), (None, None));
    }
    // A task that started between the two began at zero.
    let mut new = task("9", "new", 400, 1);
    new["started_ns"] = json!(11 * S);
    let started = view(Some(&before), &snapshot(12, &[new]));
    assert_eq!(started.tasks[0].cores, Some(0.2));
}

#[test]
fn rows_are_sorted_and_filtered_and_unknown_values_are_last() {
    let [before, now] = pair();
    let view = view(Some(&before), &now);
    let check = |key: SortKey, filter: &str, expect: &[&str]| {
        let keys: Vec<&str> = select(&view.tasks, key, filter)
            .into_iter()
            .map(|row| row.key.as_str())
            .collect();
        assert_eq!(keys, expect, "{key:?} {filter}");
    };
    check(SortKey::Cores, "", &["1", "2", "3"]);
    check(SortKey::Memory, "", &["2", "1", "3"]);
    check(SortKey::Disk, "", &["1", "2", "3"]);
    check(SortKey::Waits, "", &["1", "2", "3"]);
    check(SortKey::Network, "SO", &["2"]);
    check(SortKey::Cores, "none", &[]);
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| screen.draw(frame)).expect("it draws");
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content.chunks(usize::from(width.max(1)));
    let lines = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    lines
        .map(|line| line.trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

fn screen() -> Screen {
    let [before, now] = pair();
    let mut screen = Screen::new(Colour::Plain);
    screen.view = Some(view(Some(&before), &now));
    screen
}

fn press(screen: &mut Screen, codes: &[KeyCode]) -> KeyResult {
    let mut last = KeyResult::Continue;
    for code in codes {
        last = screen.key(KeyEvent::new(*code, KeyModifiers::NONE));
    }
    last
}

#[test]
fn the_table_fits_80_columns_and_fewer() {
    insta::assert_snapshot!(drawn(&mut screen(), 80, 9), @"
    host7, 4 tasks (only yours)
    cores 3.00 of 8, memory 4.0GiB of 16.0GiB, disk 1.0MiB/s, net -
    not shown: 1
    NAME                    CORES       MEM STATE           DISK/s     NET/s    TIME
    align                    1.50  100.0MiB running         1.4MiB         -     11s
    sort                     0.00  900.0MiB -                   0B         -     11s
    x�[2J                       -    5.0MiB -                    -         -     11s

    by cores  c m d n w sort  Enter task  / filter  ? help  q quit
    ");
    let narrow = drawn(&mut screen(), 34, 9);
    assert!(
        narrow.contains("NAME") && narrow.contains("MEM"),
        "{narrow}"
    );
    assert!(!narrow.contains("STATE"), "{narrow}");
    for (width, height) in [(1, 1), (5, 2), (300, 100)] {
        drawn(&mut screen(), width, height);
    }
}

#[test]
fn no_cell_of_the_table_is_cut_except_for_names() {
    let mut long = task(
        "1",
        "NFCORE_RNASEQ:RNASEQ:ALIGN_STAR:STAR_ALIGN (SAMPLE_7)",
        0,
        0,
    );
    long["cpu_ns"] = json!(250 * S);
    long["memory_bytes"] = json!(1_023 * 1_024 * MIB);
    long["peak_memory_bytes"] = json!(1_023 * 1_024 * MIB);
    long["requested_memory_bytes"] = json!(1_023 * 1_024 * MIB);
    long["disk_written_bytes"] = json!(2_046 * MIB);
    long["started_ns"] = json!(86_400 * S);
    long["state_samples"] = json!({"remote_file_system": 9});
    let at = 86_400 + 172_799;
    let mut earlier = long.clone();
    for counter in ["cpu_ns", "disk_written_bytes"] {
        earlier[counter] = json!(0);
    }
    earlier["state_samples"] = json!({});
    let (before, now) = (snapshot(at - 2, &[earlier]), snapshot(at, &[long]));
    let mut screen = Screen::new(Colour::Plain);
    screen.view = Some(view(Some(&before), &now));
    let row = |text: &str| {
        let row = text.lines().find(|line| line.contains("SAMPLE_7"));
        row.expect("a row")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let amounts = "125.00 1023.0GiB wait net fs 1023.0MiB - 47h59m";
    let begin = "NFCORE_…IGN (SAMPLE_7)";
    assert_eq!(
        row(&drawn(&mut screen, 80, 9)),
        format!("{begin} {amounts}")
    );
    let wide = row(&drawn(&mut screen, 120, 9));
    assert!(
        wide.ends_with(&format!("{amounts} 1023.0GiB 1023.0GiB -")),
        "{wide}"
    );
    let once = row(&plain(screen.view.as_ref().expect("a view")));
    assert!(
        once.ends_with(&format!("{amounts} 1023.0GiB 1023.0GiB -")),
        "{once}"
    );
    press(&mut screen, &[KeyCode::Enter]);
    let narrow = drawn(&mut screen, 30, 20);
    assert!(narrow.contains("(SAMPLE_7)"), "{narrow}");
}

#[test]
fn keys_select_open_filter_and_quit() {
    use KeyCode::{Char, Down, Enter, Esc};
    let mut screen = screen();
    press(&mut screen, &[Char('m'), Enter]);
    assert_eq!(screen.page, Page::Task);
    let task = drawn(&mut screen, 80, 20);
    for expect in [
        "sort  (tree 2)",
        "memory 900.0MiB now, 1.8GiB at most",
        "bwa ",
    ] {
        assert!(task.contains(expect), "{task}");
    }
    press(&mut screen, &[Esc, Down, Enter]);
    assert!(drawn(&mut screen, 60, 14).contains("align  (tree 1)"));
    press(&mut screen, &[Char('q'), Char('?')]);
    assert!(drawn(&mut screen, 80, 20).contains("sort by cores, memory"));
    press(
        &mut screen,
        &[
            Char('?'),
            Char('/'),
            Char('q'),
            Char('x'),
            KeyCode::Backspace,
        ],
    );
    assert_eq!(screen.page, Page::Filter);
    assert!(!drawn(&mut screen, 80, 20).contains("align"));
    // The task that ended while it is shown.
    press(&mut screen, &[Esc, Enter]);
    screen.view.as_mut().expect("a view").tasks.clear();
    assert!(drawn(&mut screen, 80, 20).contains("the task ended"));
    press(&mut screen, &[Esc]);
    assert_eq!(press(&mut screen, &[Char('q')]), KeyResult::Quit);
    let control_c = KeyEvent::new(Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.key(control_c), KeyResult::Quit);
}

#[test]
fn the_plain_table_has_no_control_characters() {
    let [before, now] = pair();
    let text = plain(&view(Some(&before), &now));
    assert!(text.contains("align") && text.contains("1.50"), "{text}");
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
}
