#!/bin/sh
# Builds a Kubernetes control plane, kubectl and Helm into the folder $1, with the CRDs of two operators.
# Go fetches the modules that go.sum pins. About 15 minutes of CPU the first time; GOFLAGS=-p=1 is gentler.
set -eu
folder=$1
cd "$(dirname "$0")"
version() { go list -m -f '{{.Version}}' "$1"; }
kubernetes=$(version k8s.io/kubernetes)
minor=${kubernetes#v1.}
flags="-s -w -X helm.sh/helm/v4/internal/version.version=$(version helm.sh/helm/v4)"
for field in gitVersion=$kubernetes gitMajor=1 gitMinor=${minor%%.*} gitTreeState=clean; do
  flags="$flags -X k8s.io/component-base/version.$field"
done
mkdir -p "$folder"
for package in go.etcd.io/etcd/server/v3 helm.sh/helm/v4/cmd/helm \
  k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
  k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kubectl; do
  name=${package##*/}
  [ "$name" = v3 ] && name=etcd
  echo "building $name"
  go build -mod=readonly -trimpath -ldflags "$flags" -o "$folder/$name" "$package"
done

# crds MODULE@VERSION SUM FILE... copies files of a module that has this hash (as in a go.sum).
crds() {
  found=$(go mod download -json "$1")
  case $found in *"\"Sum\": \"$2\""*) ;; *) echo "$1 has another hash than $2" >&2; exit 1 ;; esac
  below=$(printf '%s\n' "$found" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  shift 2
  for file; do install -m 644 "$below/$file" "$folder/crds/"; done
}
mkdir -p "$folder/crds"
crds github.com/prometheus-operator/prometheus-operator@v0.85.0 h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s= \
  example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml \
  example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml \
  example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml
crds github.com/cert-manager/cert-manager@v1.21.2 h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68= \
  deploy/crds/cert-manager.io_certificates.yaml deploy/crds/cert-manager.io_issuers.yaml
echo "built in $folder"
