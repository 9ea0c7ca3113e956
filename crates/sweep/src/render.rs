//! A report as text for people and machines: pure functions, no I/O. Each form
//! has its own file; the words they share are prepared once, in `view`.

mod csv;
mod email;
mod event;
mod focus;
mod hello;
mod html;
mod json;
#[cfg(test)]
mod look;
mod markdown;
#[cfg(test)]
pub(crate) mod sample;
mod sarif;
mod slack;
mod table;
pub(crate) mod text;
mod view;
mod zone;

pub use csv::csv;
pub use email::{EmailParts, email};
pub use event::{Event, event, events};
pub use focus::focus;
pub use hello::{Hello, email_hello, slack_hello};
pub use html::html;
pub use json::json;
pub use markdown::markdown;
pub use sarif::sarif;
pub use slack::slack;
pub use table::{Colour, Look, table};
pub(crate) use view::age as price_age;
pub use view::price_ages;
pub use zone::Zone;
