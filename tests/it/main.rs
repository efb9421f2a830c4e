//! The one test binary of everything that needs no cluster.

mod support;

mod apply;
mod bad_input;
mod clusters;
mod completion;
mod connect;
mod dropin;
mod fake_api;
mod finalizer;
mod generated;
mod house;
mod jsonpath;
mod krew;
mod leftovers;
mod live;
mod manners;
mod manual;
mod near_names;
mod package_logs;
mod package_status;
mod plans;
mod prompts;
mod rbac;
mod readme;
mod remedies;
mod rules;
mod schema;
mod scope;
mod status;
mod strip;
mod teardown;
mod undelete;
mod uninstall;
mod wait;
mod writes;
