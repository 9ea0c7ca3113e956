//! Rules about Spot and commitments.

pub mod commitment;
pub mod spot;
