//! Each target on its seeds and on mutations of them, within the limits; and the limits.

use std::time::{Duration, Instant};

use ebb_fuzz::limits::{LimitedAllocator, Limits, allocator};
use ebb_fuzz::{Outcome, Target};

#[global_allocator]
static ALLOCATOR: LimitedAllocator = allocator();

/// Tests run one after another here: memory and CPU time are those of the process.
#[test]
fn targets_and_limits() {
    limits_refuse_memory();
    limits_refuse_time();
    targets_take_their_seeds();
    targets_stand_mutations();
}

fn limits_refuse_memory() {
    let limits = Limits {
        memory_bytes: 1 << 20,
        memory_bytes_an_input_byte: 1_000,
        ..Limits::default()
    };
    let fits = |input: &[u8], bytes: usize| {
        limits.run(&ALLOCATOR, input, |_| {
            Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
        })
    };
    assert!(fits(b"", 1 << 19));
    assert!(!fits(b"", 1 << 21));
    assert!(fits(&[0; 2_000], 1 << 21), "a longer input may take more");
    assert!(
        Vec::<u8>::new().try_reserve_exact(1 << 21).is_ok(),
        "afterwards there is none"
    );
}

fn limits_refuse_time() {
    let limits = Limits {
        cpu_time: Duration::from_millis(20),
        ..Limits::default()
    };
    let busy = |milliseconds: u64| {
        let run = || {
            limits.run(&ALLOCATOR, b"", |_| {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(milliseconds) {
                    std::hint::black_box(());
                }
            });
        };
        std::panic::catch_unwind(run).is_ok()
    };
    assert!(busy(0));
    assert!(!busy(500));
}

/// A target whose reader refuses every seed tests nothing beyond the refusal.
fn targets_take_their_seeds() {
    let mut refused = Vec::new();
    for target in Target::ALL {
        let seeds = (target.seeds)();
        let accepted = seeds.iter().filter(|seed| {
            let outcome = Limits::default().run(&ALLOCATOR, seed, target.run);
            outcome == Outcome::Accepted
        });
        let (accepted, all) = (accepted.count(), seeds.len());
        if accepted * 2 < all || accepted == 0 {
            refused.push(format!("{}: {accepted} of {all}", target.name));
        }
    }
    assert!(refused.is_empty(), "most seeds are refused: {refused:#?}");
}

/// Mutations of each seed of a target, all seeds together.
const MUTATIONS: usize = 60;

fn targets_stand_mutations() {
    for target in Target::ALL {
        let seeds = (target.seeds)();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..MUTATIONS {
            let seed = random.choice(&seeds).expect("a target has seeds");
            let input = mutated(seed, &mut random);
            Limits::default().run(&ALLOCATOR, &input, target.run);
        }
    }
}

fn mutated(seed: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.usize(1..6) {
        let at = random.usize(0..=bytes.len());
        match random.u8(0..4) {
            0 => bytes.insert(at, random.u8(..)),
            1 => bytes.truncate(at.max(1)),
            2 => {
                let end = bytes.len().min(at + random.usize(0..16));
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.u8(0..8);
                }
            }
        }
    }
    bytes
}
