# What is done by hand, for https://just.systems; each recipe is one command, to be read as documentation as well.

# List the recipes
default:
    @just --list

# Hermetic tests whose name contains FILTER; all without it
test FILTER="":
    cargo test --locked --test it -- {{FILTER}}

# Format, lints and all tests, as before a change lands
check:
    .ci/run

# Rewrite manual pages, completions, schemas and tables
generate:
    UPDATE=1 cargo test --locked --test it -- generated

# Rewrite the figures of docs/model.md
score:
    UPDATE=1 cargo test --locked --test it -- model::pred

# A capture of the current cluster as a fixture
capture NAME:
    mkdir -p tests/clusters/{{NAME}}
    cargo run --quiet -- collect -o - | tar -xz -C tests/clusters/{{NAME}}

# Time everything against an API server of this machine
bench *ARGS:
    tests/bench/run {{ARGS}}

# The archives of a release
release DIR:
    .github/release {{DIR}}
