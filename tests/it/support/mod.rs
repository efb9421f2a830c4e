//! Shared by the tests: the fake API server, the binary runner, builders and checks.

pub mod clusters;
pub mod fake_api;
pub mod fault_checks;
pub mod fuzz;
pub mod marks;
pub mod model;
pub mod object_builder;
pub mod programs;
pub mod proxy;
pub mod run;
pub mod sample;
pub mod terminal;
pub mod test_cluster;
pub mod unfolded;
pub mod virtual_screen;
