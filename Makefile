# Isthmus: every target that a developer or CI runs. `make` alone prints them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
GO ?= go

K8S_VERSION := v1.37.1
# One fixed set of flags for the control plane's binaries: other flags would miss the build cache.
K8S_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(K8S_VERSION) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37

##@ General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*##"} /^[a-zA-Z0-9_-]+:.*##/ {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Tools (built from Go modules into bin/, rebuilt only when their module changes)

K8S_MODULE := hack/tools/kubernetes/go.mod hack/tools/kubernetes/go.sum
bin/kube-apiserver bin/kubectl: bin/%: $(K8S_MODULE)
	@echo "==> building $* $(K8S_VERSION) (the first time this takes some minutes)"
	@hack/progress.sh "$*" env -C hack/tools/kubernetes CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(K8S_LDFLAGS)' -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$*

bin/etcd: hack/tools/etcd/go.mod hack/tools/etcd/go.sum
	@echo "==> building etcd (the first time this takes about a minute)"
	@hack/progress.sh etcd env -C hack/tools/etcd CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ go.etcd.io/etcd/server/v3

bin/golangci-lint: hack/tools/golangci-lint/go.mod hack/tools/golangci-lint/go.sum
	@echo "==> building golangci-lint (the first time this takes some minutes)"
	@hack/progress.sh golangci-lint env -C hack/tools/golangci-lint CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
