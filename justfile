# Manual tasks for https://just.systems. Each recipe is one command, so that the file also serves as documentation.

# List the recipes
default:
    @just --list

# Run the hermetic tests whose name contains FILTER, or all
test FILTER="":
    cargo test --locked --test it -- {{FILTER}}

# Run the fixtures of one rule, by its code or by the name of its file
rule NAME:
    cargo test --locked --test rules -- {{NAME}}

# Run the end-to-end scenarios whose name contains FILTER, or all
e2e FILTER="":
    cargo test --locked --test e2e -- --test-threads 4 {{FILTER}}

# Check format and lints, and run all tests, as every change must pass them
check:
    .ci/run

# Rewrite manual pages, completions, schemas and tables
generate:
    UPDATE=1 cargo test --locked --test it -- generated

# Rewrite the measurements in docs/model.md
score:
    UPDATE=1 cargo test --locked --test model -- pred

# Capture the current cluster as a fixture
capture NAME:
    mkdir -p tests/clusters/{{NAME}}
    cargo run --quiet -- collect -o - | tar -xz -C tests/clusters/{{NAME}}

# Run the benchmarks, with a local API server
bench *ARGS:
    tests/bench/run {{ARGS}}

# Build the archives of a release
release DIR:
    .github/release {{DIR}}
