# Sourced by tests/run: with REDRIVE_TEST_WITH_TLS=1 the servers also speak TLS, under an authority of their own that
# nobody knows: REDRIVE_TEST_CA names its certificate. The servers' certificate is for `localhost` alone, so that the
# same server reached as 127.0.0.1 is the wrong host.

wants_tls() { [ "${REDRIVE_TEST_WITH_TLS:-}" = 1 ]; }

tls_make() {
  wants_tls || return 0
  command -v openssl >/dev/null || die "REDRIVE_TEST_WITH_TLS=1 needs openssl: install it and run this again"
  local here=$dir/tls
  mkdir "$here"
  printf 'subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n' >"$here/server.ext"
  if ! (
    cd "$here" &&
      openssl req -x509 -newkey rsa:2048 -nodes -days 7 -subj '/CN=redrive test authority' \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
        -keyout ca-key.pem -out ca.pem &&
      openssl req -newkey rsa:2048 -nodes -subj '/CN=localhost' -keyout server-key.pem -out server.csr &&
      openssl x509 -req -days 7 -in server.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -extfile server.ext \
        -out server.pem
  ) >"$dir/tls.log" 2>&1; then
    tail -n 20 "$dir/tls.log" >&2
    die "openssl could not make certificates; its log is above"
  fi
  # The servers run as somebody else; these keys protect nothing but a test.
  chmod 644 "$here"/*
  export REDRIVE_TEST_CA=$here/ca.pem
}
