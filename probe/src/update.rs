//! `ebb-probe update`: replaces the program of this machine by a newer one that the owner of a key
//! has signed. It runs as root in a unit of its own and is off by default. The daemon never writes
//! a program.
//!
//! A program is replaced by renaming, so each moment has a complete one. The updater stores that it
//! begins; if it is interrupted, the next run ends the update.

mod decision;
mod manifest;
mod program_files;
mod release_source;
mod service;
mod stored_state;
mod trust;
mod updater;

pub use updater::{UpdateOptions, run};
