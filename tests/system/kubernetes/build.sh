#!/bin/sh
# Build a Kubernetes API server and its controllers from Debian's source package, into the folder that is given.
#
# The package is of Debian 12: Kubernetes 1.20.2, which its Go 1.19 compiles. It takes root for apt-get, about ten minutes
# on two cores, and 2 GB while it builds; what it leaves is two programs of 200 MB. Where they are there already, nothing
# is done. etcd comes from a package too.
set -eu

into=$1
mkdir -p "$into"
cd "$into"
if [ -x kube-apiserver ] && [ -x kube-controller-manager ] && command -v etcd >/dev/null; then
    exit 0
fi

suite=bookworm
mirror=$(grep -hs '^URIs:' /etc/apt/sources.list.d/debian.sources | head -n 1 | cut -d ' ' -f 2)
mkdir -p build/lists/partial build/cache
cat >build/source.sources <<END
Types: deb-src
URIs: ${mirror:-http://deb.debian.org/debian}
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
top=$PWD # the source is fetched from another folder
apt_source() {
    apt-get -qq -o Dir::Etc::sourcelist="$top/build/source.sources" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$top/build/lists" -o APT::Sandbox::User=root "$@"
}

apt-get -qq install -y --no-install-recommends golang-1.19-go etcd-server dpkg-dev
tree=build/gopath/src/k8s.io/kubernetes
if [ ! -d $tree ]; then
    apt_source update
    (cd build && apt_source source --download-only kubernetes)
    mkdir -p build/gopath/src/k8s.io
    dpkg-source --no-check -x build/kubernetes_*.dsc $tree
fi

PATH=/usr/lib/go-1.19/bin:$PATH
GOPATH=$PWD/build/gopath GOCACHE=$PWD/build/cache GO111MODULE=off GOFLAGS=-p=1 CGO_ENABLED=0
export PATH GOPATH GOCACHE GO111MODULE GOFLAGS CGO_ENABLED
cd $tree
root=k8s.io/kubernetes

# What the API server says of its types is generated, and not part of the package.
if [ ! -f pkg/generated/openapi/zz_generated.openapi.go ]; then
    go build -o "$GOPATH/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    tagged=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd plugin staging/src/k8s.io |
        grep -v -e /code-generator/ -e /sample-apiserver/ -e /testdata/ | xargs -n 1 dirname | LC_ALL=C sort -u |
        sed -e 's|^staging/src/|vendor/|' -e "s|^|$root/|" | paste -s -d ,)
    "$GOPATH/openapi-gen" -i "$tagged" -p $root/pkg/generated/openapi -O zz_generated.openapi \
        -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$GOPATH/violations"
fi

version=$root/vendor/k8s.io/component-base/version
for program in kube-apiserver kube-controller-manager; do
    go build -o "$GOPATH/$program" -ldflags \
        "-s -w -X $version.gitVersion=v1.20.2 -X $version.gitMajor=1 -X $version.gitMinor=20" ./cmd/$program
done
cd "$OLDPWD"
mv "$GOPATH/kube-apiserver" "$GOPATH/kube-controller-manager" .
rm -rf build
