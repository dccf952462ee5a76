#!/bin/sh
# Make the virtual environment .venv beside this folder, with yopp in it, unless it exists and is current.
# Usage: scripts/venv.sh [dev]      "dev" adds the dependencies of the tests and linters.
# Prints nothing on stdout. Installs into .venv only, except that root also gets the system packages without which Python
# cannot make virtual environments.
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
extra=${1:-}
venv=$root/.venv
stamp=$venv/.yopp-${extra:-run}
want=$(cat "$root/pyproject.toml" "$root/bin/yopp" | cksum) # changes with the dependencies, and with the program that is copied

fail() {
    printf 'error: %s\n  because: %s\n  hint: %s\n' "$1" "$2" "$3" >&2
    exit 1
}

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && [ -x "$venv/bin/python" ]; then
    exit 0
fi

python=
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing python3 (apt-get)" >&2
    { apt-get update -q && apt-get install -y -q python3 python3-venv; } >&2
    python=python3
fi
[ -n "$python" ] || fail "no Python 3.11 or newer was found" "yopp needs it" "apt-get install python3 python3-venv"

make_venv() { "$python" -m venv "$venv" >"$venv.log" 2>&1; }
if [ ! -x "$venv/bin/pip" ]; then
    echo "making $venv" >&2
    if ! make_venv; then
        rm -rf "$venv"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            echo "installing python3-venv (apt-get)" >&2
            { apt-get update -q && apt-get install -y -q python3-venv; } >&2
            make_venv || { cat "$venv.log" >&2; fail "no virtual environment could be made" "see above" "apt-get install python3-venv"; }
        else
            fail "no virtual environment could be made" "$(tail -n 1 "$venv.log")" "sudo apt-get install python3-venv"
        fi
    fi
    rm -f "$venv.log"
fi
echo "installing yopp into $venv" >&2
if [ -n "$extra" ]; then target="$root[$extra]"; else target=$root; fi
# cgroupspy has no pyproject.toml: --use-pep517 avoids a warning of pip.
"$venv/bin/python" -m pip install -q --disable-pip-version-check --use-pep517 -e "$target" >&2 ||
    fail "yopp could not be installed" "see the message of pip above" "check the network, then run this again"
# Python 3.11 brings it, and with it a file that costs each start of Python a millisecond.
"$venv/bin/python" -m pip uninstall -q -y setuptools >/dev/null 2>&1 || :
# pip writes the first line, and keeps no option of it.
sed -i '1s/$/ -S/' "$venv/bin/yopp"
printf '%s\n' "$want" >"$stamp"
