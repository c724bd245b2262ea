//go:build programs

// Package programs names what the tests' control plane is built from, so that go.sum pins all of it.
//
// Kubernetes builds its own programs with 33 libraries from its own tree; go.mod takes their published
// twins of the same release. Another release: change both versions in go.mod, then `go mod tidy`.
package programs

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "helm.sh/helm/v4/cmd/helm"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
