#!/usr/bin/env bash
# Builds the environment that Binder builds, in a fresh venv, and runs the tutorials there.
#   binder/check.sh                  all of them
#   binder/check.sh 02 03            some
#   binder/check.sh --environment    builds only
#   binder/check.sh --lessons 02     runs only, in what was built before
set -euo pipefail
cd "$(dirname "$0")/.."
export JUPYTER_PREFER_ENV_PATH=1
unset PYTHONPATH
place="$PWD/build/binder"
export PATH="$place/env/bin:$PATH"

build() {
  rm -rf "$place" && mkdir -p "$place"

  # What Binder would do with this folder, as far as that can be told without Docker.
  "${PYTHON:-python3}" -m venv "$place/tools"
  "$place/tools/bin/python" -m pip install --quiet --disable-pip-version-check jupyter-repo2docker
  "$place/tools/bin/jupyter-repo2docker" --no-build --debug . > "$place/Dockerfile.txt" 2>&1
  for wanted in requirements.txt postBuild binutils gcc graphviz; do
    grep -q -- "$wanted" "$place/Dockerfile.txt" || { echo "repo2docker says nothing of $wanted" >&2; exit 1; }
  done

  # The same steps in a venv.
  "${PYTHON:-python3}" -m venv "$place/env"
  hash -r
  python -m pip install --quiet --disable-pip-version-check -r binder/requirements.txt
  bash binder/postBuild
  python -m pip check
}

# The tutorials use the package that was installed, not the one that lies there.
run_lessons() { (cd "$place" && python "$OLDPWD/notebooks/execute.py" "$@"); }

# The page that opens.
open_page() {
timeout 180 python - "$place/lab.log" <<'PY'
import pathlib, socket, subprocess, sys, time, urllib.error, urllib.request

with socket.create_server(("127.0.0.1", 0)) as free:
    address = "http://127.0.0.1:%d" % free.getsockname()[1]
log = pathlib.Path(sys.argv[1])
port = "--ServerApp.port=" + address.rpartition(":")[2]
command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", port, "--IdentityProvider.token=", "--ServerApp.password="]
with log.open("w") as stderr:
    server = subprocess.Popen(command, stderr=stderr)
try:
    opened = None
    while opened is None:  # what the log announces does not always answer at once
        assert server.poll() is None, log.read_text()
        try:
            opened = urllib.request.urlopen(address + "/", timeout=30).geturl()
        except urllib.error.URLError:
            time.sleep(0.5)
    assert opened.endswith("/lab/tree/notebooks/01-first-steps.ipynb"), opened
    assert pathlib.Path("notebooks/01-first-steps.ipynb").exists()
    print("opens", opened.removeprefix(address))
finally:
    server.terminate()
PY
}

case "${1:-}" in
  --environment) build ;;
  --lessons) shift; run_lessons "$@"; open_page ;;
  *) build; run_lessons "$@"; open_page ;;
esac
echo "binder/: all well"
