# Every command of the project. `make help` explains them. Options: NAME=<instance>, KUBECONFIG_FILE=<own cluster>.
PYTHON ?= python3
NAME ?=
DEVCLUSTER = $(PYTHON) -m devcluster $(if $(NAME),--name $(NAME))

.DEFAULT_GOAL := help
.PHONY: help up down test test-vm test-gpu check bench images push release clean preview-gpu

help:
	@echo "make up      from a bare Debian machine to a Slurm cluster in Kubernetes, and one real job"
	@echo "make down    end this checkout's dev cluster and remove what it left (its data too)"
	@echo "make test    all tests, on an instance of their own"
	@echo "make test-vm the tests that need cgroup v2 and NFS, in a guest where this machine has neither;"
	@echo "             TESTS=tests/vm/kubelet, which takes more than an hour, only when it is asked for"
	@echo "make test-gpu   what a GPU machine shows without Kubernetes, and what was skipped; RECORD=DIR BUNDLE=FILE FROM=FILE"
	@echo "make check   format, lint, types, import layers, shell, C, Containerfiles, sentences, workflows"
	@echo "make preview-gpu   what Pulumi.gpu.example.yaml would make, without any Kubernetes; OUT=FILE writes it as JSON"
	@echo "make bench   the measurements of docs/benchmarks.md"
	@echo "make images  build all images; make push REGISTRY=registry.example/team copies them there"
	@echo "make release  the version of pyproject.toml in build/release/; DRY_RUN=1 only tells, REGISTRY=... pushes the images"
	@echo "make clean   down, and the virtual environment; the build cache stays (make clean-cache drops it)"

up:
	$(DEVCLUSTER) up $(if $(KUBECONFIG_FILE),--kubeconfig $(KUBECONFIG_FILE)) $(if $(REGISTRY),--registry $(REGISTRY))

down:
	$(DEVCLUSTER) down

test:
	$(PYTHON) -m devcluster test $(TESTS)

test-vm:
	$(PYTHON) -m devcluster test-vm $(TESTS)

test-gpu:
	$(PYTHON) -m devcluster test-gpu $(if $(RECORD),--record $(RECORD)) $(if $(BUNDLE),--bundle $(BUNDLE)) $(if $(FROM),--from $(FROM))

check:
	$(PYTHON) -m devcluster check

preview-gpu:
	$(DEVCLUSTER) preview Pulumi.gpu.example.yaml $(if $(OUT),--out $(OUT))

bench:
	$(PYTHON) -m devcluster bench

images:
	$(PYTHON) -m devcluster images

push:
	$(PYTHON) -m devcluster push $(REGISTRY)

release:
	$(DEVCLUSTER) release $(if $(DRY_RUN),--dry-run) $(REGISTRY)

clean: down
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build

.PHONY: clean-cache
clean-cache: clean
	$(PYTHON) -m devcluster clean-cache
