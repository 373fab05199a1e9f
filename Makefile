# Every target is one script or one cargo command; `make help` lists them.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
export PREFIX DESTDIR FUZZ_SECONDS

.PHONY: help packages deps build demo test lint model fuzz bench bench-afxdp bench-check bench-offload bench-ovs \
	install uninstall

help: ## List the targets
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' Makefile | expand -t 12

packages:
	@.ci/packages

deps: packages ## Install what everything here needs (Debian packages, cargo tools)
	@.ci/cargo-tool cargo-nextest
	@.ci/cargo-tool cargo-deny

build: ## Build the release binaries into target/release
	@.ci/toolchain
	cargo build --release --locked --workspace --bins --example manual

demo: packages build ## Start the switch in a temporary directory, use it, stop it
	@.ci/demo

test: packages ## Run every test
	@.ci/test

lint: packages ## Check format, lints, documentation, licences and crate boundaries
	@.ci/lint

model: ## Run the concurrency models
	@.ci/model

fuzz: packages ## Fuzz each parser for FUZZ_SECONDS (60)
	@.ci/fuzz

bench: packages build ## Measure the database, forwarding and TCP between two hosts
	@.ci/bench

bench-afxdp: packages build ## Measure AF_XDP ports beside Open vSwitch's
	cargo bench --locked --package sluice-tests --bench afxdp -- --beside-ovs

bench-check: ## Count instructions per packet, and compare with dpif/instructions.txt
	@.ci/bench-check

bench-offload: ## Measure offload on software NICs
	@.ci/bench-offload

bench-ovs: packages build ## The same beside Open vSwitch, in alternation
	@.ci/bench --beside-ovs

install: build ## Install into DESTDIR/PREFIX (/usr/local)
	@.ci/install

uninstall: ## Remove what `install` put in place
	@.ci/install --remove
