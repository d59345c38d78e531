#!/usr/bin/env bash
# Builds the environment that Binder builds, in a fresh venv, and runs the tutorials there.
#   binder/check.sh          all of them
#   binder/check.sh 02 03    some
set -euo pipefail
cd "$(dirname "$0")/.."
export JUPYTER_PREFER_ENV_PATH=1
unset PYTHONPATH
place="$PWD/build/binder"
rm -rf "$place" && mkdir -p "$place"

# What Binder would do with this folder, as far as that can be told without Docker.
"${PYTHON:-python3}" -m venv "$place/tools"
"$place/tools/bin/python" -m pip install --quiet --disable-pip-version-check jupyter-repo2docker
"$place/tools/bin/jupyter-repo2docker" --no-build --debug . > "$place/Dockerfile.txt" 2>&1
for wanted in requirements.txt postBuild binutils gcc; do
  grep -q -- "$wanted" "$place/Dockerfile.txt" || { echo "repo2docker says nothing of $wanted" >&2; exit 1; }
done

# The same steps in a venv.
"${PYTHON:-python3}" -m venv "$place/env"
export PATH="$place/env/bin:$PATH"
python -m pip install --quiet --disable-pip-version-check -r binder/requirements.txt
bash binder/postBuild
python -m pip check
cd "$place" # the package that was installed, not the one that lies there
python "$OLDPWD/notebooks/execute.py" "$@"

# The page that opens.
cd "$OLDPWD"
timeout 60 python - <<'PY'
import pathlib, re, subprocess, sys, urllib.request

command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0", "--IdentityProvider.token=", "--ServerApp.password="]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
try:
    address = next(m[0] for line in server.stderr if (m := re.search(r"http://(?:127\.0\.0\.1|localhost):\d+", line)))
    opened = urllib.request.urlopen(address + "/").geturl()
    assert opened.endswith("/lab/tree/notebooks/01-first-steps.ipynb"), opened
    assert pathlib.Path("notebooks/01-first-steps.ipynb").exists()
    print("opens", opened.removeprefix(address))
finally:
    server.terminate()
PY
echo "binder/: all well"
