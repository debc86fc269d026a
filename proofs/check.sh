#!/usr/bin/env bash
# Checks all proofs: `bash proofs/check.sh`, or `bash proofs/check.sh plain shared` for some of them. Prints a verdict
# for each lemma, and a story of what happens without each guard. Fails if a verdict is not the expected one. z3 comes
# from PyPI, into a venv below target/.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
venv=target/proofs-venv
if ! "$venv/bin/python" -c 'import z3' 2>/dev/null; then
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install --quiet 'z3-solver>=4.12,<6' || exit 1
fi
[[ $# -gt 0 ]] || set -- plain fencing shared slots
status=0
for group in "$@"; do
    PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" "proofs/$group.py" || { echo "FAILED: proofs/$group.py"; status=1; }
done
exit $status
