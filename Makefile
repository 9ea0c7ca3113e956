# Targets for people and CI jobs. Demo and tests build with the same
# packages, features and profile, so that each cloud SDK is compiled once.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: daemonset tests checks help try demo test prove check build lint deny terraform units rights security simulators advice pages web fuzz fuzz-short kernels bench bench-probe bench-sweep bench-tune bench-inventory bench-verdicts bench-pages bench-top docs reference links pictures picture hooks release packages prose lake-sql bench-lake newcomer reproducible

export EBB_CACHE ?= $(HOME)/.cache/ebb
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PATH := $(EBB_CACHE)/bin:$(HOME)/.cargo/bin:$(PATH)

# The calls to the simulators that the tests record.
CALLS = $(CARGO_TARGET_DIR)/calls

SEED ?= 1
EVERYTHING := --workspace --all-features
CARGO = CARGO_BUILD_JOBS=$${CARGO_BUILD_JOBS:-$$(scripts/build-jobs)} cargo
BUILT = $(CARGO_TARGET_DIR)/$$(rustc -vV | sed -n 's/^host: //p')/debug

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

try: ## Build the terminal program (4 minutes, no cloud SDK) and scan the built-in demo account
	scripts/setup try
	cargo run -p ebb-cli -- scan --demo

demo: ## Run the main job in a simulated account; SEED=n, SHARDS=n, KEEP=1 keeps it running
	scripts/setup demo
	@$(MAKE) --no-print-directory build
	$(BUILT)/ebb-demo --seed $(SEED) $(if $(SHARDS),--shards $(SHARDS)) $(if $(KEEP),--keep)

test: ## Run every test
	scripts/setup test
	cargo fmt --all --check
	@$(MAKE) --no-print-directory units security links deny simulators build lint
	@$(MAKE) --no-print-directory -k -j2 tests checks
	@$(MAKE) --no-print-directory daemonset rights fuzz-short

tests:
	rm -rf $(CALLS)
	EBB_CALLS=$(CALLS) CARGO_BUILD_JOBS=$${CARGO_BUILD_JOBS:-$$(scripts/build-jobs)} scripts/run-tests

# They run at the same time as the tests, at a lower priority.
checks:
	nice -n 10 $(MAKE) --no-print-directory -k terraform advice lake-sql pages

check: lint security links prose ## Format, lints, text, links and the fast tests
	cargo fmt --all --check
	$(CARGO) test -p ebb-model -p ebb-node-state -p ebb-sizing -p ebb-analysis -p ebb-wire

# Built like the tests but for the code that each week runs, so that the lake is not compiled again.
prove: ## Visit every order of the protocol, fail each call of a sweep, and simulate the weeks of 100,000 seeds; SEEDS=n sets the number, SEED=n the first
	$(CARGO) test -p ebb-protocol-model -- --ignored --nocapture
	EBB_EVERY_CALL=1 $(CARGO) --config scripts/prove.toml test -p ebb-sweep --features lake --test sweep any_call
	EBB_SEED=$(if $(filter command environment,$(firstword $(origin SEED))),$(SEED),0) EBB_SEEDS=$(or $(SEEDS),100000) \
	  $(CARGO) --config scripts/prove.toml test -p ebb-sweep --features lake --test simulation -- --nocapture --include-ignored every_seed each_deliberate_flaw

build:
	$(CARGO) build $(EVERYTHING) --all-targets

# It checks the dependencies once more than the build, but generates no code for the packages of the workspace.
lint:
	$(CARGO) clippy $(EVERYTHING) --all-targets -- -D warnings

bench-inventory: ## Collect 100,000 instances and 50,000 jobs of 30 accounts from a fast fake
	$(BENCH)/bench-inventory

docs: links ## Check the links and build the book into target/book
	scripts/setup docs
	mdbook build docs --dest-dir $(CARGO_TARGET_DIR)/book

reference: ## Write generated pages, schema of reports, code of the wire and fields in SECURITY.md again
	EBB_UPDATE=1 $(CARGO) test $(EVERYTHING) --lib --test documents --test reference --test generated -- the_page_ the_code_ the_file_of_
	scripts/athena-catalog

links:
	scripts/check-links

web: ## Build script and styles of the pages into crates/api/src/pages/assets; needs node
	scripts/setup web
	scripts/build-pages

pictures: ## Take the pictures in docs/src/pictures from the demo account; needs chromium
	@scripts/pictures

picture: pictures

newcomer: ## Time install, apply, first heartbeat and first alert in a simulated account (root; 4 minutes)
	scripts/setup demo
	@$(MAKE) --no-print-directory build
	scripts/time-newcomer $(BUILT)

hooks: ## Have git check format, links and the message of each commit
	git config core.hooksPath scripts/hooks

release: ## Build all that users install for both architectures into dist/ (an hour), and check it
	scripts/setup release
	scripts/release
	scripts/check-reproducible --packing $(CARGO_TARGET_DIR)/release-programs dist
	scripts/check-release dist

reproducible: ## Build the probe of a release twice, in two folders, and compare the bytes (20 minutes)
	scripts/setup build
	scripts/check-reproducible

packages: ## Install the Debian packages in dist/ in an emulated Debian with systemd (20 minutes)
	scripts/check-packages

MINUTES ?= 60
fuzz: ## Fuzz every reader of external data with coverage; MINUTES=n in total (60)
	CARGO_BUILD_JOBS=$${CARGO_BUILD_JOBS:-$$(scripts/build-jobs)} scripts/fuzz $$(($(MINUTES) * 60))

# With the packages of the other tests, so that only our own crates are compiled for it.
fuzz-short: ## Fuzz every reader for a minute in total, with the build of the tests
	CARGO_BUILD_JOBS=$${CARGO_BUILD_JOBS:-$$(scripts/build-jobs)} FUZZ_BUILD="$(EVERYTHING) --test harness" scripts/fuzz 60

prose: ## List text that is hard to understand, by the words in scripts/prose-words.tsv
	scripts/prose

deny: ## Check licences, sources and advisories of the dependencies
	scripts/check-dependencies

bench: bench-probe bench-sweep bench-lake bench-tune bench-inventory bench-verdicts bench-pages bench-top ## Run every benchmark

kernels: ## Run the tests of the probe on emulated kernels; writes probe/KERNELS.md (1 hour)
	@scripts/kernels

bench-probe: ## Measure the cost of the probe next to other agents (root; 10 minutes)
	@scripts/bench-probe

# The build of a release, which takes 30 minutes at first.
BENCH = $$(scripts/build-release bench)

bench-sweep: ## Measure a sweep of 10 to 100,000 nodes, and the running cost of a deployment
	$(BENCH)/bench-sweep

bench-lake: ## Measure a day, a month and a year of the lake, next to DuckDB; NODES=n, FLEET=n, DAYS=n
	scripts/setup test
	scripts/bench-lake $(BENCH)

bench-tune: ## Measure the ranking, the API and its program
	folder=$(BENCH); EBB_TUNE=$$folder/ebb-tune $$folder/bench-tune

bench-pages: ## Measure the pages of 10,000 nodes and a run of 100,000 tasks in chromium
	scripts/setup pictures
	scripts/bench-pages $(BENCH)

bench-top: ## Measure the CPU time of `ebb top`
	scripts/bench-top $(BENCH)

DATA ?= eval/histories
bench-verdicts: ## Compare idle results on labelled histories with published rules; DATA=DIR
	$(CARGO) run --release -p eval -- verdicts --data $(DATA)

terraform: ## Check the Terraform module and its examples
	scripts/check-terraform

units: ## Check the systemd units and their restrictions, and the installer of a release
	scripts/check-units
	cd tests/release && python3 -m unittest

security: ## Check the tests and fields in SECURITY.md
	scripts/check-security

advice:
	scripts/check-advice $(BUILT)/ebb

simulators:
	scripts/check-simulators

# Not next to the tests, because it runs the real probe. They leave the calls to their simulators.
rights: ## Compare the calls of each program with its IAM policy; after `make build`
	scripts/check-rights $(BUILT) $(CALLS)

pages:
	scripts/check-pages $(BUILT)/ebb

lake-sql: ## Run the questions in sql/ on every engine, and compare their rows; after `make build`
	scripts/check-lake-sql $(BUILT)/ebb

daemonset: ## Check the Kubernetes manifest, and run the probe with its rights in a container
	scripts/check-daemonset $(BUILT)/ebb-probe
