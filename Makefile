# Isthmus: every target that a developer or CI runs. `make` alone prints them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
GO ?= go

# The version is semantic: that of the tag, v1.2.3-4-gcommit after it, v0.0.0-gcommit before the first one.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || \
	git describe --always --exclude '*' --dirty 2>/dev/null | sed 's/^/v0.0.0-g/' | grep . || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# When the commit was made: what is built of it twice is the same.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# CLOUDS=aws,openstack leaves all others out of both binaries: each has a build tag no_<cloud>.
comma := ,
ALL_CLOUDS := $(sort $(patsubst no_%.go,%,$(notdir $(wildcard pkg/providers/no_*.go credentialprovider/config/no_*.go))))
CLOUDS ?= $(ALL_CLOUDS)
override CLOUDS := $(subst $(comma), ,$(CLOUDS))
$(if $(filter-out $(ALL_CLOUDS),$(CLOUDS)),$(error CLOUDS=$(CLOUDS): there are $(ALL_CLOUDS)))
TAGS = $(subst $() ,$(comma),$(patsubst %,no_%,$(filter-out $(CLOUDS),$(ALL_CLOUDS))))
# Stripped: what is released is what is measured.
LDFLAGS = -s -w -X github.com/isthmus-cloud/isthmus/pkg/version.Version=$(VERSION)
BUILD = $(GO) build -buildvcs=false -tags '$(TAGS)' -ldflags '$(LDFLAGS)'

K8S_VERSION := v1.37.1
K8S_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(K8S_VERSION) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37
# Where etcd, kube-apiserver and kubectl are downloaded from, by setup-envtest; empty for its own index. What cannot be
# downloaded is built from source.
ENVTEST_INDEX ?=
DOWNLOAD = GO='$(GO)' ENVTEST_INDEX='$(ENVTEST_INDEX)' hack/progress.sh $(@F) hack/envtest/envtest.sh $(K8S_VERSION) $@

# All but the race detector is reproducible and without cgo. With the same flags everywhere, the
# tools' ones too, each package compiles once, beside once for the race detector.
export CGO_ENABLED := 0
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
# Packages run in this order: those first that mostly wait, beside which the others compile and run.
PKGS ?= ./test/differential/... ./test/integration/... ./test/chaos ./pkg/providers/openstack ./pkg/cloudauth/openstack ./webhooks/... ./pkg/controllers/... ./...
# How many packages are compiled and tested at a time.
TEST_PROCS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 2 )))
# Arguments of `go test`, separated by blanks; quotes or a backslash keep blanks in one, and nothing
# else is special, neither to make nor to the shell: TESTARGS='-run ^(TestA|TestB)$ -count 2',
# TESTARGS='-run "TestA/with blanks"'. They reach it through the environment (hack/testargs.sh).
override TESTARGS := $(value TESTARGS)
export TESTARGS
# Tests take etcd and kube-apiserver from here; a folder of your own is honored.
export KUBEBUILDER_ASSETS ?= $(CURDIR)/bin
ifeq ($(KUBEBUILDER_ASSETS),$(CURDIR)/bin)
CONTROL_PLANE := bin/etcd bin/kube-apiserver
TEST_PLANE := $(CONTROL_PLANE) bin/kube-controller-manager bin/kubectl bin/cert-manager bin/helm bin/promtool
endif
# What a whole cluster runs, and what is installed into it.
CLUSTER_PLANE := bin/etcd $(addprefix bin/kube,-apiserver -controller-manager -scheduler -proxy ctl let) bin/helm
SHIPPED = $(MAKE) --silent --no-print-directory images packages PLATFORMS=linux/$$($(GO) env GOARCH)

##@ General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*##"} /^[a-zA-Z0-9_-]+:.*##/ {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(firstword $(MAKEFILE_LIST))

.PHONY: quickstart
quickstart: $(if $(CLUSTER),$(CLUSTER_PLANE),$(CONTROL_PLANE) $(if $(filter --exit,$(ARGS)),,bin/kubectl) build) ## See everything work on this machine (CLOUD=aws plays on a simulated AWS, CLOUD=vsphere on a simulated vCenter; ARGS=--exit ends after the steps; CLUSTER=1 has kubelets and pods on a simulated OpenStack, on Debian 12 as root)
	@hack/progress.sh quickstart $(GO) build -o bin/quickstart ./hack/quickstart
	@$(if $(CLUSTER),$(SHIPPED) && exec hack/sandbox/quickstart.sh,exec bin/quickstart) --cloud=$(or $(CLOUD),openstack) $(ARGS)

##@ Development

.PHONY: build
build: ## Build the three binaries into bin/ (CLOUDS=aws,openstack leaves out all others)
	@hack/progress.sh cloud-controller-manager $(BUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	@hack/progress.sh isthmus-credential-provider $(BUILD) -o bin/isthmus-credential-provider ./cmd/credential-provider
	@hack/progress.sh isthmus $(BUILD) -o bin/isthmus ./cmd/isthmus

GO_TEST := $(GO) test -vet=off -timeout 30m -p $(TEST_PROCS)

# Two are built at a time, as one alone leaves a core idle while it is linked.
.PHONY: test-plane
test-plane:
	@$(if $(TEST_PLANE),$(MAKE) --silent --no-print-directory -j2 $(TEST_PLANE))

.PHONY: test
test: test-plane ## All tests: unit, simulated cloud, real kube-apiserver (PKGS=./pkg/lb/... TESTARGS='-run TestX' narrow it down)
	@echo "==> go test $(lastword $(PKGS)) (packages print as they end)"
	@hack/progress.sh tests hack/testargs.sh $(GO_TEST) $(PKGS)

# Left out is what would find nothing: what runs at the same time in the replays of test/differential, in test/chaos and in the tests
# of commands, of what is installed (charts, manifests) and of hack are other programs, which are built without the race detector;
# test/arch and test/docs read files, and test/conformance, doctor and explain do one thing after another with what the tests of the
# packages below them do at once.
.PHONY: test-race
test-race: test-plane ## The same with the race detector, but for what has nothing concurrent (it needs a C compiler, and twice the time)
	@command -v $$($(GO) env CC) >/dev/null || { echo "test-race: the race detector needs a C compiler: $$($(GO) env CC)" >&2; exit 1; }
	@echo "==> go test -race $(lastword $(PKGS)) (packages print as they end)"
	@hack/progress.sh "tests with the race detector" hack/testargs.sh env CGO_ENABLED=1 $(GO_TEST) -race \
		$$($(GO) list $(PKGS) | grep -vE '/(test/(differential|conformance)/|test/(arch|chaos|docs)$$|pkg/cli/(doctor|explain)$$|charts$$|manifests$$|cmd/|hack/)')

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint, the end-to-end tests included
	@hack/progress.sh golangci-lint bin/golangci-lint run --allow-serial-runners ./...

.PHONY: generate
generate: ## Regenerate the references in docs/reference
	@$(GO) generate ./...

.PHONY: verify
verify: build bin/actionlint ## What is generated is fresh, modules are tidy, binaries are small enough
	@ALL_CLOUDS='$(ALL_CLOUDS)' LDFLAGS='$(LDFLAGS)' hack/verify.sh

.PHONY: record-occm
record-occm: $(CONTROL_PLANE) ## Record what openstack-cloud-controller-manager does in test/differential (OCCM=PATH; ARGS='-groups a,b' narrows it down)
	@test -n "$(OCCM)" || { echo "record-occm: give OCCM=PATH, a binary built from its public source" >&2; exit 1; }
	@hack/progress.sh cloud-controller-manager $(BUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	@$(GO) run ./hack/record openstack -width 2 -manager $(OCCM) -ours bin/cloud-controller-manager $(ARGS)

.PHONY: record-aws
record-aws: $(CONTROL_PLANE) ## Record what aws-cloud-controller-manager does in test/differential/aws (CCM=PATH CCM_VERSION='what it is built from'; ARGS='-groups a,b' narrows it down)
	@test -n "$(CCM)" -a -n "$(CCM_VERSION)" || { echo "record-aws: give CCM=PATH, a binary built from its public source, and CCM_VERSION" >&2; exit 1; }
	@hack/progress.sh cloud-controller-manager $(BUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	@$(GO) run ./hack/record aws -manager $(CCM) -version "$(CCM_VERSION)" -ours bin/cloud-controller-manager $(ARGS)

.PHONY: record-vsphere
record-vsphere: $(CONTROL_PLANE) ## Record what vsphere-cloud-controller-manager does in test/differential/vsphere (CCM=PATH CCM_VERSION='what it is built from'; ARGS='-groups a,b' narrows it down)
	@test -n "$(CCM)" -a -n "$(CCM_VERSION)" || { echo "record-vsphere: give CCM=PATH, a binary built from its public source, and CCM_VERSION" >&2; exit 1; }
	@hack/progress.sh cloud-controller-manager $(BUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	@$(GO) run ./hack/record vsphere -width 2 -manager $(CCM) -version "$(CCM_VERSION)" -ours bin/cloud-controller-manager $(ARGS)

.PHONY: bench
bench: $(CONTROL_PLANE) ## Benchmarks, the webhook behind a real kube-apiserver among them (figures for people)
	@$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: race
race: $(CONTROL_PLANE) build ## The same work done by us and, with OCCM=PATH, by that binary: time, cloud calls, API writes (ARGS=-help)
	@$(GO) run ./hack/race -ours bin/cloud-controller-manager $(if $(OCCM),-occm '$(OCCM)') $(ARGS)

.PHONY: bench-scale
bench-scale: $(CONTROL_PLANE) build ## What clusters of 1,000 to 15,000 Nodes cost, into docs/reference/performance.md (20 minutes; ARGS='-nodes 1000 -services 100' is a smaller run, which writes nothing)
	@$(GO) run ./hack/bench-scale -ours bin/cloud-controller-manager $(or $(ARGS),-markdown docs/reference/performance.md)

.PHONY: dashboard-picture
dashboard-picture: $(CONTROL_PLANE) bin/prometheus ## Draw the panels of the Grafana dashboard into docs/guides, of a real Prometheus and the real manager (4 minutes)
	@hack/progress.sh cloud-controller-manager $(BUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	@$(GO) run ./hack/draw-dashboard -svg docs/guides/monitoring-dashboard.svg $(ARGS)

.PHONY: shape
shape: $(CONTROL_PLANE) ## Sizes of packages, names exported for nobody, parameter lists, and the files that a Node's and a Service's change pass (ARGS='-o json')
	@$(GO) run ./hack/shape $(ARGS)

.PHONY: bench-credential
bench-credential: ## CPU time of the credential provider until its first byte, over a program that does nothing (fails over 5 ms) and of AWS' own, with ECP=PATH that binary (over 0.8)
	@$(GO) run ./hack/bench-credential $(if $(ECP),-ecp '$(ECP)') $(ARGS)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (default 20s)
	@hack/fuzz.sh $(or $(FUZZTIME),20s)

.PHONY: mutate
mutate: $(TEST_PLANE) ## Put known defects into the code, one by one: the package's own tests must notice (PKGS=./pkg/lb/... narrows it down)
	@env CGO_ENABLED=0 $(GO) run ./hack/mutate $(ARGS) $(if $(filter file,$(origin PKGS)),,$(PKGS))

.PHONY: clean
clean: ## Remove bin/
	@rm -rf bin

##@ Release

# What images are built for, and where all that is in them is put: a folder an architecture and binary.
PLATFORMS ?= linux/amd64,linux/arm64
IMAGE_FILES ?= $(CURDIR)/bin/images/files
RELEASE_ENV = GO='$(GO)' LDFLAGS='$(LDFLAGS)' TAGS='$(TAGS)' PLATFORMS='$(PLATFORMS)' VERSION='$(VERSION)' \
	REVISION='$(REVISION)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)'

.PHONY: images
images: image-files ## Both images as OCI layouts in bin/images, with SBOM, the same twice (PLATFORMS=linux/amd64; BASE=IMAGE; buildah)
	@$(RELEASE_ENV) BASE='$(BASE)' hack/progress.sh images hack/images/build.sh '$(IMAGE_FILES)' '$(CURDIR)/bin/images'

# The same out of which images are made: a package is for nodes, which have more architectures.
.PHONY: packages
packages: bin/ship bin/nfpm
packages: PLATFORMS = linux/amd64,linux/arm64,linux/ppc64le,linux/s390x
packages: ## deb and rpm of the credential provider in bin/packages (PLATFORMS=linux/amd64)
	@$(RELEASE_ENV) PACKAGES=credential-provider hack/progress.sh "what is in packages" hack/images/files.sh '$(IMAGE_FILES)'
	@$(RELEASE_ENV) hack/progress.sh packages hack/packages/build.sh '$(IMAGE_FILES)' '$(CURDIR)/bin/packages'

.PHONY: snapshot
snapshot: packages bin/goreleaser bin/ship ## All that a release has beside images, in bin/dist: archives for every system, checksums, SBOMs; nothing is signed or published
	@$(RELEASE_ENV) hack/progress.sh goreleaser hack/release.sh snapshot
	@$(GO_TEST) -count 1 -tags e2e,snapshot -run TestSnapshot ./test/e2e/release

.PHONY: release
release: packages bin/goreleaser bin/ship ## The same for the tag that is checked out, signed, as a draft (.github/workflows/release.yaml does that)
	@$(RELEASE_ENV) hack/release.sh publish

.PHONY: vulnerabilities
vulnerabilities: bin/govulncheck ## Known vulnerabilities in what the binaries call
	@bin/govulncheck ./cmd/...

.PHONY: sizes
sizes: ## Measure what each cloud adds to the binaries, into docs/reference/sizes.md
	@ALL_CLOUDS='$(ALL_CLOUDS)' LDFLAGS='$(LDFLAGS)' hack/progress.sh sizes hack/sizes.sh docs/reference/sizes.md

.PHONY: e2e-release
e2e-release: ## What is released, as those get it who download it: images and packages, the same twice (Debian; TESTARGS='-run TestX' narrows it down)
	@hack/need.sh buildah dpkg rpm
	@hack/progress.sh "what is released" hack/testargs.sh $(GO_TEST) -count 1 -tags e2e ./test/e2e/release

.PHONY: e2e-page
e2e-page: $(CONTROL_PLANE) ## The manager's page /status in headless Chromium (Debian; TESTARGS=-picture takes the picture in docs/guides anew)
	@hack/need.sh chromium
	@hack/progress.sh cloud-controller-manager $(BUILD) -o bin/cloud-controller-manager ./cmd/cloud-controller-manager
	@hack/progress.sh "the page in a browser" hack/testargs.sh $(GO_TEST) -count 1 -tags e2e ./test/e2e/page

.PHONY: image-files
image-files: bin/ship
	@$(RELEASE_ENV) hack/progress.sh "what is in images" hack/images/files.sh '$(IMAGE_FILES)'

##@ A real OpenStack (Debian 12, root)

.PHONY: openstack-up openstack-down openstack-status
openstack-up: ## Install and start OpenStack Zed on 127.0.0.1 (about 3 minutes the first time)
	@hack/openstack/openstack.sh up
openstack-down: ## Stop it (ARGS=--wipe removes its state, too)
	@hack/openstack/openstack.sh down $(ARGS)
openstack-status: ## What of it runs
	@hack/openstack/openstack.sh status

.PHONY: e2e-openstack
e2e-openstack: $(CONTROL_PLANE) ## The real binaries against it; starts it if need be (OCCM=PATH hands clusters over between that and ours; TESTARGS='-run TestX' narrows it down)
	@GO=$(GO) OCCM=$(OCCM) hack/testargs.sh hack/openstack/e2e.sh

##@ An account of AWS, or an emulator of it

.PHONY: conformance-aws
conformance-aws: ## The conformance suite where the environment leads to: AWS_REGION, credentials, for an emulator AWS_ENDPOINT_URL. All is made in a VPC of its own, and deleted; at AWS it costs money
	@hack/progress.sh "the conformance suite at AWS" hack/testargs.sh $(GO_TEST) -v -count 1 -tags e2e ./test/e2e/aws

##@ Real kubelets (Debian 12, root)

.PHONY: e2e-kubelet
e2e-kubelet: $(TEST_PLANE) bin/kubelet ## The credential provider with a real kubelet, containerd and registries (TESTARGS='-run TestX' narrows it down)
	@GO=$(GO) hack/testargs.sh hack/sandbox/e2e.sh kubelet

.PHONY: e2e-cluster
e2e-cluster: $(CLUSTER_PLANE) ## A whole cluster of two machines from what ships: image, chart and package (TESTARGS='-run TestX' narrows it down)
	@$(SHIPPED)
	@GO=$(GO) hack/testargs.sh hack/sandbox/e2e.sh cluster

# Tools: built from Go modules into bin/, rebuilt only when their module changes.

bin/kube-apiserver bin/kubectl: bin/%: hack/tools/kubernetes/go.mod hack/tools/kubernetes/go.sum
	@$(DOWNLOAD) || $(call BUILD_KUBERNETES,$*)

bin/kube-controller-manager bin/kube-scheduler bin/kube-proxy bin/kubelet: bin/%: hack/tools/kubernetes/go.mod hack/tools/kubernetes/go.sum
	@$(call BUILD_KUBERNETES,$*)

define BUILD_KUBERNETES
{ echo "==> building $1 $(K8S_VERSION) (the first time this takes some minutes)"; \
	hack/progress.sh $1 env -C hack/tools/kubernetes $(GO) build -ldflags '$(K8S_LDFLAGS)' -o $(CURDIR)/bin/$1 k8s.io/kubernetes/cmd/$1; }
endef

bin/cert-manager: hack/tools/cert-manager/go.mod hack/tools/cert-manager/go.sum hack/tools/cert-manager/main.go
	@echo "==> building cert-manager (the first time this takes some minutes)"
	@hack/progress.sh cert-manager env -C hack/tools/cert-manager $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ .

bin/etcd: hack/tools/etcd/go.mod hack/tools/etcd/go.sum
	@$(DOWNLOAD) || { echo "==> building etcd (the first time this takes about a minute)"; \
	hack/progress.sh etcd env -C hack/tools/etcd $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ go.etcd.io/etcd/server/v3; }

bin/ship: $(wildcard hack/tools/ship/*)
	@hack/progress.sh ship env -C hack/tools/ship $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ .

bin/helm: hack/tools/helm/go.mod hack/tools/helm/go.sum
	@echo "==> building helm (the first time this takes some minutes)"
	@hack/progress.sh helm env -C hack/tools/helm $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ helm.sh/helm/v4/cmd/helm

bin/nfpm: hack/tools/nfpm/go.mod hack/tools/nfpm/go.sum
	@echo "==> building nfpm (the first time this takes about a minute)"
	@hack/progress.sh nfpm env -C hack/tools/nfpm $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

# Too large for a module of its own, whose tests' modules alone are gigabytes to tidy; the checksum database
# holds it to what everybody gets.
bin/goreleaser: export GOBIN := $(CURDIR)/bin
bin/goreleaser: hack/goreleaser.version
	@echo "==> building goreleaser (the first time this takes some minutes)"
	@hack/progress.sh goreleaser $(GO) install -ldflags '-s -w' github.com/goreleaser/goreleaser/v2@$(shell cat hack/goreleaser.version)
	@touch $@

bin/govulncheck: hack/tools/govulncheck/go.mod hack/tools/govulncheck/go.sum
	@hack/progress.sh govulncheck env -C hack/tools/govulncheck $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck

bin/actionlint: hack/tools/actionlint/go.mod hack/tools/actionlint/go.sum
	@hack/progress.sh actionlint env -C hack/tools/actionlint $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ github.com/rhysd/actionlint/cmd/actionlint

# Without what finds things to scrape, which is all clouds' libraries.
bin/promtool bin/prometheus: bin/%: hack/tools/prometheus/go.mod hack/tools/prometheus/go.sum
	@echo "==> building $* (the first time this takes some minutes)"
	@hack/progress.sh $* env -C hack/tools/prometheus $(GO) build -tags remove_all_sd -ldflags '-s -w' -o $(CURDIR)/$@ github.com/prometheus/prometheus/cmd/$*

bin/golangci-lint: hack/tools/golangci-lint/go.mod hack/tools/golangci-lint/go.sum
	@echo "==> building golangci-lint (the first time this takes some minutes)"
	@hack/progress.sh golangci-lint env -C hack/tools/golangci-lint $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
