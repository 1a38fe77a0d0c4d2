# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the other scripts: installs what they need where apt is at hand,
# elsewhere names it and stops. A need is `probe|Debian package`; the probe is
# cmd:PROGRAM, pc:PKG_CONFIG_MODULE, py:MODULE or file:PATH, so whatever is there already
# is left alone, however it came. `pypi:MODULE|package` is what Debian does not have: pip
# puts it into build-python/, where scripts/report.py looks for it.

# shellcheck disable=SC2034  # all of them are used by those that source this
NEEDS_BUILD=(
    'cmd:gcc|gcc' 'cmd:g++|g++' 'file:/usr/include/stdio.h|libc6-dev'
    'cmd:meson|meson' 'cmd:ninja|ninja-build' 'cmd:pkg-config|pkg-config' 'cmd:git|git'
    'pc:hwloc|libhwloc-dev' 'pc:sleef|libsleef-dev' 'pc:benchmark|libbenchmark-dev'
    'pc:cmocka|libcmocka-dev' 'pc:libcjson|libcjson-dev'
)
# scripts/compare.py, and examples/depth: each is tested where these are. Some tests build
# the tree once more, which ccache (meson finds it by itself) spares them.
# shellcheck disable=SC2034
NEEDS_TEST=('cmd:ccache|ccache' 'py:numpy|python3-numpy' 'py:scipy|python3-scipy' 'pc:blas|libblas-dev')
# scripts/report.py draws with it.
# shellcheck disable=SC2034
NEEDS_REPORT=('py:pip|python3-pip' 'pypi:vl_convert|vl-convert-python==1.9.0.post1')
# Its page is tested in a browser.
# shellcheck disable=SC2034
NEEDS_BROWSER=('cmd:chromium|chromium' 'cmd:chromedriver|chromium-driver'
    'py:selenium|python3-selenium')
# `count` decodes x86-64 with it.
[ "$(uname -m)" != x86_64 ] || NEEDS_BUILD+=('file:/usr/include/Zydis/Zydis.h|libzydis-dev')
# shellcheck disable=SC2034
NEEDS_CLANG=('cmd:clang|clang' 'cmd:clang-format-14|clang-format-14')
# shellcheck disable=SC2034
NEEDS_LINT=('cmd:yamllint|yamllint')
# Holds workflows against GitHub's own schema, which it brings along.
# shellcheck disable=SC2034
NEEDS_SCHEMA=('py:pip|python3-pip' 'pypi:check_jsonschema|check-jsonschema==0.39.0')
# shellcheck disable=SC2034
NEEDS_X86_EMULATION=('cmd:qemu-x86_64-static|qemu-user-static')
# shellcheck disable=SC2034
NEEDS_AARCH64=(
    'cmd:qemu-aarch64-static|qemu-user-static'
    'cmd:aarch64-linux-gnu-gcc|gcc-aarch64-linux-gnu'
    'cmd:aarch64-linux-gnu-g++|g++-aarch64-linux-gnu'
    'file:/usr/aarch64-linux-gnu/include/stdio.h|libc6-dev-arm64-cross'
    'file:/usr/lib/aarch64-linux-gnu/pkgconfig/hwloc.pc|libhwloc-dev:arm64'
    'file:/usr/lib/aarch64-linux-gnu/pkgconfig/sleef.pc|libsleef-dev:arm64'
    'file:/usr/lib/aarch64-linux-gnu/pkgconfig/benchmark.pc|libbenchmark-dev:arm64'
    'file:/usr/lib/aarch64-linux-gnu/pkgconfig/cmocka.pc|libcmocka-dev:arm64'
    'file:/usr/lib/aarch64-linux-gnu/pkgconfig/libcjson.pc|libcjson-dev:arm64'
)

have() {
    case $1 in
        cmd:*) command -v "${1#cmd:}" >/dev/null ;;
        py:*) python3 -c "import ${1#py:}" 2>/dev/null || /usr/bin/python3 -c "import ${1#py:}" 2>/dev/null ;;
        pypi:*) PYTHONPATH=build-python python3 -c "import ${1#pypi:}" 2>/dev/null ;;
        pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
        file:*) [ -e "${1#file:}" ] ;;
    esac
}

# Fills `missing` with the Debian packages of the given needs that are not there, and
# `missing_pypi` with the others.
find_missing() {
    local need
    missing=() missing_pypi=()
    for need in "$@"; do
        if [ "${need%%:*}" = pypi ]; then
            have "${need%|*}" || missing_pypi+=("${need#*|}")
            continue
        fi
        have "${need%|*}" || [[ " ${missing[*]} " = *" ${need#*|} "* ]] || missing+=("${need#*|}")
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# need_packages NEED...: returns once all of them are there, or ends the script.
need_packages() {
    find_missing "$@"
    [ ${#missing[@]} -eq 0 ] || install_debian
    [ ${#missing_pypi[@]} -eq 0 ] || install_pypi
    find_missing "$@"
    [ ${#missing[@]}${#missing_pypi[@]} = 00 ] || {
        printf '%s: installed, but still not found: %s\n' "$0" "${missing[*]} ${missing_pypi[*]}" >&2
        exit 3
    }
}

# want_packages WHAT NEED...: what goes without them says so and goes on.
want_packages() {
    (need_packages "${@:2}") || printf '%s: going on without %s\n' "$0" "$1" >&2
}

install_debian() {
    if ! command -v apt-get >/dev/null; then
        printf '%s: this system has no apt-get. Please install what it calls these Debian packages, then run this again:\n  %s\n' \
            "$0" "${missing[*]}" >&2
        exit 3
    fi
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        printf '%s: not root and no sudo. Please run as root:\n  apt-get install %s\n' \
            "$0" "${missing[*]}" >&2
        exit 3
    fi
    printf 'Installing by apt-get: %s\n' "${missing[*]}"
    case " ${missing[*]}" in
        *:arm64*) as_root dpkg --add-architecture arm64 ;;
    esac
    shown_if_it_fails apt_install || {
        printf '%s: apt-get could not install: %s\n' "$0" "${missing[*]}" >&2
        exit 3
    }
}

install_pypi() {
    local python
    printf 'Installing by pip: %s\n' "${missing_pypi[*]}"
    for python in python3 /usr/bin/python3; do # the first may not be the one that has pip
        ! "$python" -c 'import pip' 2>/dev/null || break
    done
    shown_if_it_fails "$python" -m pip install --upgrade --target build-python \
        "${missing_pypi[@]}" || {
        printf '%s: pip could not install: %s\n' "$0" "${missing_pypi[*]}" >&2
        exit 3
    }
}

apt_install() {
    as_root apt-get -o DPkg::Lock::Timeout=300 update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
            install --yes --no-install-recommends "${missing[@]}"
}

shown_if_it_fails() {
    local log status=0
    log=$(mktemp)
    "$@" </dev/null >"$log" 2>&1 || status=$?
    [ $status -eq 0 ] || tail -n 20 "$log" >&2
    rm -f "$log"
    return $status
}
