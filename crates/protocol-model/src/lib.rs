//! A model of how sweeps process each message exactly once: receive, commit under a batch number,
//! delete, store the state, and forget the oldest probe starts. The checker visits every order of
//! the actions of two sweeps, with crashes, redelivery and changes of the number of shards at any
//! point. This crate is not used in production; it models `ebb_ingest::fold`.
//!
//! Each heartbeat of the model belongs to its own probe start, and all belong to one node. A larger
//! number is a later time.

#[cfg(test)]
mod tests;

use stateright::{Model, Property};

/// Set of heartbeats by number, one bit each.
pub type Heartbeats = u8;

/// A fault of the protocol that the checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// No fault.
    Sound,
    /// Messages are deleted before the commit.
    DeleteFirst,
    /// A commit ignores the number of its batch.
    IgnoreBatchNumbers,
    /// Messages of a forgotten probe start are accepted as new.
    AcceptForgotten,
    /// After a lost race, rows are not checked again for probe starts forgotten in the meantime.
    CheckForgottenOnce,
    /// A refused message is deleted before it is stored as a dead letter.
    DeleteRefusedFirst,
    /// A state is stored with a commit number that it does not contain.
    FoldedTooFar,
    /// A commit ignores the commits of sweeps with another number of shards.
    IgnoreOtherShards,
}

/// Bounds of the model.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// Heartbeats that the node sends.
    pub heartbeats: u8,
    /// Concurrent sweeps, at most two.
    pub sweeps: usize,
    /// Number of probe starts in the state.
    pub remembered: u32,
    /// Fault of the protocol.
    pub variant: Variant,
}

/// Content of the state of a shard about the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Memory {
    accepted: Heartbeats,
    /// Heartbeats below this number are forgotten.
    forgotten: u8,
    /// Commits of the lake that the state contains.
    folded: u8,
}

/// One commit of the lake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Commit {
    /// The number of shards of the sweep that made it.
    shards: u8,
    /// The number of the batch.
    number: u8,
    rows: Heartbeats,
}

/// Next action of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Read the state.
    Load,
    /// Read the number of the newest batch.
    LastBatch,
    /// Add the newer commits of the lake to the state.
    CatchUp,
    /// Receive messages.
    Receive,
    /// Commit the new heartbeats.
    Append,
    /// Add the commits up to the own commit, which is the last number here.
    Fold(u8),
    /// Delete the committed messages.
    Delete,
    /// Write a refused message to the dead letters.
    Refuse,
    /// Delete the messages that are stored as dead letters.
    DeleteRefused,
    /// Write the state.
    Store,
}

/// Shard of a sweep; only the sweep of the node's own shard stores its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The sweep of the node's own shard.
    Home,
    /// The sweep of another shard, whose queue received messages of the node.
    Visitor,
}

/// A running sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sweep {
    step: Step,
    role: Role,
    shards: u8,
    memory: Memory,
    /// The state that the write of the sweep replaces; `None` if there is none.
    replaces: Option<Memory>,
    next_number: u8,
    /// Received messages that are not processed yet.
    taken: Heartbeats,
    refused: Heartbeats,
}

/// Stored data and running sweeps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// Sent heartbeats.
    sent: Heartbeats,
    /// Messages that a receive returns.
    visible: Heartbeats,
    /// Messages that were received and not deleted.
    hidden: Heartbeats,
    lake: Vec<Commit>,
    dead_letters: Heartbeats,
    /// State of the node's shard with one shard, and with two shards.
    stored: [Option<Memory>; 2],
    shards: u8,
    sweeps: [Option<Sweep>; 2],
}

/// Next possible event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The node sends its next heartbeat.
    Send(u8),
    /// A message is delivered again, although it may have been deleted.
    Redeliver(u8),
    /// The number of shards changes.
    Reshard,
    /// A sweep begins.
    Begin(usize, Role),
    /// A sweep performs its next action.
    Go(usize),
    /// A sweep crashes.
    Crash(usize),
}

fn bit(heartbeat: u8) -> Heartbeats {
    1 << heartbeat
}

/// Heartbeats below a number.
fn below(number: u8) -> Heartbeats {
    bit(number) - 1
}

impl Protocol {
    /// Adds rows, and forgets the oldest probe starts above the limit.
    fn fold(&self, memory: &mut Memory, rows: Heartbeats) {
        memory.accepted |= rows;
        while memory.accepted.count_ones() > self.remembered {
            let oldest = u8::try_from(memory.accepted.trailing_zeros()).unwrap_or(u8::MAX);
            memory.accepted &= !bit(oldest);
            memory.forgotten = memory.forgotten.max(oldest + 1);
        }
    }

    fn fold_commits(&self, memory: &mut Memory, commits: &[Commit], to: u8) {
        for commit in commits.iter().take(to.into()).skip(memory.folded.into()) {
            self.fold(memory, commit.rows);
        }
        memory.folded = memory.folded.max(to);
    }

    /// Part of `rows` that may have been accepted and forgotten.
    fn too_late(&self, memory: &Memory, rows: Heartbeats) -> Heartbeats {
        match self.variant {
            Variant::AcceptForgotten => 0,
            _ => rows & !memory.accepted & below(memory.forgotten),
        }
    }

    /// Performs the next action of a sweep; `None` if the sweep has ended.
    fn step(&self, world: &mut World, mut sweep: Sweep) -> Option<Sweep> {
        sweep.step = match sweep.step {
            Step::Load => load(world, &mut sweep),
            Step::LastBatch => {
                let own = world.lake.iter().filter(|c| c.shards == sweep.shards);
                sweep.next_number = own.map(|c| c.number + 1).max().unwrap_or(0);
                Step::CatchUp
            }
            Step::CatchUp => {
                let newest = len(&world.lake);
                self.fold_commits(&mut sweep.memory, &world.lake, newest);
                match sweep.taken {
                    0 => Step::Receive,
                    _ => self.check_again(&mut sweep)?,
                }
            }
            Step::Receive => self.receive(world, &mut sweep)?,
            Step::Append => self.append(world, &mut sweep),
            Step::Fold(version) => {
                self.fold_commits(&mut sweep.memory, &world.lake, version + 1);
                if self.variant == Variant::FoldedTooFar {
                    sweep.memory.folded = len(&world.lake);
                }
                sweep.next_number += 1;
                Step::Delete
            }
            Step::Delete => {
                delete(world, sweep.taken);
                sweep.taken = 0;
                match (sweep.refused, self.variant) {
                    (0, _) => Step::Store,
                    (_, Variant::DeleteRefusedFirst) => Step::DeleteRefused,
                    _ => Step::Refuse,
                }
            }
            Step::Refuse => {
                world.dead_letters |= sweep.refused;
                match self.variant {
                    Variant::DeleteRefusedFirst => Step::Store,
                    _ => Step::DeleteRefused,
                }
            }
            Step::DeleteRefused => {
                delete(world, sweep.refused);
                match self.variant {
                    Variant::DeleteRefusedFirst => Step::Refuse,
                    _ => Step::Store,
                }
            }
            Step::Store => return self.store(world, &sweep),
        };
        Some(sweep)
    }

    /// Checks rows again after another sweep was faster, because its commit may make a row too late.
    fn check_again(&self, sweep: &mut Sweep) -> Option<Step> {
        let is_late = self.too_late(&sweep.memory, sweep.taken) != 0;
        match is_late && self.variant != Variant::CheckForgottenOnce {
            // The sweep ends with an error; the message comes again and is refused.
            true => None,
            false => Some(Step::Append),
        }
    }

    fn receive(&self, world: &mut World, sweep: &mut Sweep) -> Option<Step> {
        if world.visible == 0 {
            return None;
        }
        let received = std::mem::take(&mut world.visible);
        world.hidden |= received;
        sweep.refused = self.too_late(&sweep.memory, received);
        sweep.taken = received & !sweep.refused;
        if self.variant == Variant::DeleteFirst {
            delete(world, sweep.taken);
        }
        Some(Step::Append)
    }

    fn append(&self, world: &mut World, sweep: &mut Sweep) -> Step {
        let rows = sweep.taken & !sweep.memory.accepted;
        if rows == 0 {
            return Step::Delete;
        }
        let (shards, number) = (sweep.shards, sweep.next_number);
        let mut own = world.lake.iter().filter(|c| c.shards == shards);
        let is_there = own.any(|c| c.number >= number);
        let mut unknown = world.lake.iter().skip(sweep.memory.folded.into());
        let has_unknown = unknown.any(|c| c.shards != shards);
        if has_unknown && self.variant != Variant::IgnoreOtherShards {
            return Step::LastBatch;
        }
        if is_there && self.variant != Variant::IgnoreBatchNumbers {
            return Step::LastBatch;
        }
        let version = len(&world.lake);
        world.lake.push(Commit {
            shards,
            number,
            rows,
        });
        Step::Fold(version)
    }

    /// A sweep whose loaded state was replaced starts again.
    fn store(&self, world: &mut World, sweep: &Sweep) -> Option<Sweep> {
        if sweep.role == Role::Visitor || sweep.replaces == Some(sweep.memory) {
            return None;
        }
        let stored = &mut world.stored[usize::from(sweep.shards) - 1];
        if *stored == sweep.replaces {
            *stored = Some(sweep.memory);
            return None;
        }
        Some(Sweep::new(sweep.role, sweep.shards))
    }

    /// Expected state after this number of commits.
    fn expected(&self, world: &World, folded: u8) -> Memory {
        let mut memory = Memory::default();
        self.fold_commits(&mut memory, &world.lake, folded);
        memory
    }
}

impl Sweep {
    fn new(role: Role, shards: u8) -> Self {
        Self {
            step: Step::Load,
            role,
            shards,
            memory: Memory::default(),
            replaces: None,
            next_number: 0,
            taken: 0,
            refused: 0,
        }
    }
}

/// A shard without a state starts with the state of the other number of shards.
fn load(world: &World, sweep: &mut Sweep) -> Step {
    let own = usize::from(sweep.shards) - 1;
    sweep.replaces = world.stored[own];
    let found = world.stored[own].or(world.stored[1 - own]);
    sweep.memory = found.unwrap_or_default();
    Step::LastBatch
}

fn delete(world: &mut World, messages: Heartbeats) {
    world.visible &= !messages;
    world.hidden &= !messages;
}

fn len(lake: &[Commit]) -> u8 {
    u8::try_from(lake.len()).unwrap_or(u8::MAX)
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            sent: 0,
            visible: 0,
            hidden: 0,
            lake: Vec::new(),
            dead_letters: 0,
            stored: [None, None],
            shards: 1,
            sweeps: [None, None],
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let next = u8::try_from(world.sent.count_ones()).unwrap_or(u8::MAX);
        if next < self.heartbeats {
            actions.push(Action::Send(next));
        }
        let again = (0..next).filter(|heartbeat| world.visible & bit(*heartbeat) == 0);
        actions.extend(again.map(Action::Redeliver));
        actions.push(Action::Reshard);
        let running = world.sweeps.iter().flatten().count();
        for (index, sweep) in world.sweeps.iter().enumerate() {
            match sweep {
                None if running >= self.sweeps => {}
                Some(_) => actions.extend([Action::Go(index), Action::Crash(index)]),
                None => {
                    actions.push(Action::Begin(index, Role::Home));
                    if world.shards > 1 {
                        actions.push(Action::Begin(index, Role::Visitor));
                    }
                }
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Send(heartbeat) => {
                next.sent |= bit(heartbeat);
                next.visible |= bit(heartbeat);
            }
            Action::Redeliver(heartbeat) => {
                next.hidden &= !bit(heartbeat);
                next.visible |= bit(heartbeat);
            }
            Action::Reshard => next.shards = 3 - world.shards,
            Action::Begin(index, role) => {
                next.sweeps[index] = Some(Sweep::new(role, world.shards));
            }
            Action::Go(index) => {
                let sweep = world.sweeps[index]?;
                next.sweeps[index] = self.step(&mut next, sweep);
            }
            Action::Crash(index) => next.sweeps[index] = None,
        }
        // Which of two sweeps does something makes no difference.
        next.sweeps.sort();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is doubled", |_, world: &World| {
                let mut known = 0;
                world.lake.iter().all(|commit| {
                    let is_new = known & commit.rows == 0;
                    known |= commit.rows;
                    is_new
                })
            }),
            Property::always("nothing is lost", |_, world: &World| {
                let in_lake = world.lake.iter().fold(0, |all, commit| all | commit.rows);
                let known = in_lake | world.visible | world.hidden | world.dead_letters;
                world.sent & !known == 0
            }),
            Property::always(
                "a state is what the lake folds to",
                |protocol, world: &World| {
                    let mut stored = world.stored.iter().flatten();
                    stored.all(|memory| *memory == protocol.expected(world, memory.folded))
                },
            ),
            Property::sometimes("all is taken in", |protocol, world: &World| {
                let in_lake = world.lake.iter().map(|commit| commit.rows.count_ones());
                in_lake.sum::<u32>() == u32::from(protocol.heartbeats)
                    && world.visible | world.hidden == 0
                    && world.sweeps.iter().all(Option::is_none)
            }),
            Property::sometimes("a forgotten one is refused", |_, world: &World| {
                world.dead_letters != 0
            }),
        ]
    }
}
