#!/bin/sh
# Debian packages that some tests use: Chromium (the dashboard), Prometheus (promtool), MIT Kerberos (GSSAPI),
# logrotate, and the tools that build, unpack and run the image, alone and in pods.
# Installed where that is possible without asking anybody; elsewhere those tests skip and say why. Never fails.
PATH="$PATH:/usr/sbin:/sbin"
wanted=""
command -v chromium >/dev/null || wanted="$wanted chromium"
command -v promtool >/dev/null || wanted="$wanted prometheus"
{ command -v krb5kdc && command -v kadmin.local; } >/dev/null || wanted="$wanted krb5-kdc krb5-admin-server"
command -v ip >/dev/null || wanted="$wanted iproute2"
command -v iptables-restore >/dev/null || wanted="$wanted iptables"
for tool in buildah logrotate mmdebstrap runc umoci; do
  command -v $tool >/dev/null || wanted="$wanted $tool"
done
[ -z "$wanted" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed, so their tests will skip:$wanted (Debian packages; root installs them here)"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $wanted; } >/dev/null 2>&1 \
  || echo "could not be installed, so their tests will skip:$wanted"
