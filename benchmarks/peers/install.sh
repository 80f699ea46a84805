#!/usr/bin/env bash
# An environment of its own for a peer library, with torch's build held fixed: install.sh NAME
set -euo pipefail
cd "$(dirname "$0")"
torch=$(grep '^torch==' ../../constraints.txt)
case "${1:-}" in
    flower) packages=("flwr[simulation]") ;;
    pfl) packages=(pfl) ;;
    fluke) packages=(fluke-fl torchvision) ;;
    fedlab) packages=(fedlab torchvision) ;;
    fedjax) packages=(fedjax "jax==0.5.3" "jaxlib==0.5.3" "numpy<2.3") ;;
    *) echo "usage: install.sh flower|pfl|fluke|fedlab|fedjax" >&2; exit 2 ;;
esac
python3 -m venv ".venvs/$1"
".venvs/$1/bin/pip" install --quiet "$torch" numpy
".venvs/$1/bin/pip" install --quiet --constraint <(echo "$torch") "${packages[@]}"
