# Sourced by tests/run: a Python with pika, RabbitMQ's reference client, as a second opinion on what redrive sends; with
# PyMySQL too, where it can be had, as the peer of a bench.

pymysql='PyMySQL>=1.1,<2'

python_find() {
  [ -z "${REDRIVE_TEST_PYTHON:-}" ] || return 0
  if ! python_choose python_has_both; then
    python_install >"$dir/python.log" 2>&1 || { can_apt && apt_install python3-pika python3-pymysql; } || true
    if ! python_choose python_has_both && ! python_choose python_has_pika; then
      say "NO PYTHON WITH PIKA: install python3 and its package pika; tests that need REDRIVE_TEST_PYTHON will fail"
      return 0
    fi
  fi
  export REDRIVE_TEST_PYTHON
}

# The first Python of which $1 is true.
python_choose() {
  local python
  for python in "$cache/python/bin/python3" python3 /usr/bin/python3; do
    if "$1" "$python"; then
      REDRIVE_TEST_PYTHON=$(command -v "$python")
      return
    fi
  done
  return 1
}

python_has_pika() { "$1" -c 'import pika' >/dev/null 2>&1; }

python_has_both() { "$1" -c 'import pika, pymysql' >/dev/null 2>&1; }

# A virtual environment in the cache, made aside and moved: another run may be doing the same.
python_install() {
  local python new="$cache/python.$$"
  # One that another run may be using gets what it lacks; it is not replaced under it.
  if python_has_pika "$cache/python/bin/python3"; then
    "$cache/python/bin/python3" -m pip install --quiet "$pymysql"
    return
  fi
  for python in python3 /usr/bin/python3; do
    rm -rf "$new"
    if "$python" -m venv "$new" && "$new/bin/python3" -m pip install --quiet 'pika>=1.3,<2' "$pymysql"; then
      if ! python_has_both "$cache/python/bin/python3"; then rm -rf "$cache/python" && mv "$new" "$cache/python"; fi
      break
    fi
  done
  rm -rf "$new"
  python_has_both "$cache/python/bin/python3"
}
