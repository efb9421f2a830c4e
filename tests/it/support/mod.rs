//! What tests stand on.

pub mod bearing;
pub mod clusters;
pub mod fake_api;
pub mod found;
pub mod fuzz;
pub mod marks;
pub mod model;
pub mod proxy;
pub mod run;
pub mod stage;
pub mod terminal;
pub mod world;
