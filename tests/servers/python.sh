# Sourced by tests/run: a Python with pika, RabbitMQ's reference client, as a second opinion on what redrive sends.

python_find() {
  local python
  [ -z "${REDRIVE_TEST_PYTHON:-}" ] || return 0
  for python in "$cache/python/bin/python3" python3 /usr/bin/python3; do
    if python_has_pika "$python"; then break; fi
    python=
  done
  if [ -z "$python" ]; then
    if python_install >"$dir/python.log" 2>&1; then
      python=$cache/python/bin/python3
    elif can_apt && apt_install python3-pika && python_has_pika /usr/bin/python3; then
      python=/usr/bin/python3
    else
      say "NO PYTHON WITH PIKA: install python3 and its package pika; tests that need REDRIVE_TEST_PYTHON will fail"
      return 0
    fi
  fi
  REDRIVE_TEST_PYTHON=$(command -v "$python")
  export REDRIVE_TEST_PYTHON
}

python_has_pika() { "$1" -c 'import pika' >/dev/null 2>&1; }

# A virtual environment in the cache, made aside and moved: another run may be doing the same.
python_install() {
  local python new="$cache/python.$$"
  for python in python3 /usr/bin/python3; do
    rm -rf "$new"
    if "$python" -m venv "$new" && "$new/bin/python3" -m pip install --quiet 'pika>=1.3,<2'; then
      if ! python_has_pika "$cache/python/bin/python3"; then rm -rf "$cache/python" && mv "$new" "$cache/python"; fi
      break
    fi
  done
  rm -rf "$new"
  python_has_pika "$cache/python/bin/python3"
}
