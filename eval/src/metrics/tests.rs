//! Small fleets.
