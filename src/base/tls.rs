//! What a TLS library says when it does not trust a server, said again for the person who has to act.

/// How to make an authority known. All three clients (message broker, management API, databases) read
/// the same store.
const TRUST: &str = "if the server is yours, add its authority's certificate to this machine's store, or \
     name a PEM file with it in SSL_CERT_FILE";

/// The cause and the fix of a failed handshake with `host`; `None` when `words` are not about TLS.
pub fn explained(words: &str, host: &str) -> Option<String> {
    let told = if words.contains("UnknownIssuer") || words.contains("unknown issuer") {
        format!(
            "the certificate of {host} is signed by an authority that is not trusted here; {TRUST}"
        )
    } else if words.contains("CaUsedAsEndEntity") {
        format!("the certificate of {host} signs itself; {TRUST}")
    } else if words.contains("not valid for name") || words.contains("NotValidForName") {
        format!(
            "the certificate of this server is not for the name {host}; connect by a name it was made \
             for, or have one made for this name"
        )
    } else if words.contains("certificate expired") || words.contains("Expired") {
        format!(
            "the certificate of {host} has expired; have it renewed, and check this machine's clock"
        )
    } else if words.contains("certificate not valid yet") || words.contains("NotValidYet") {
        format!("the certificate of {host} is not valid yet; check this machine's clock")
    } else if words.contains("invalid peer certificate") {
        format!("the certificate of {host} is not accepted; {TRUST}")
    } else if words.contains("InvalidContentType") || words.contains("does not support TLS") {
        format!("{host} does not speak TLS on this port; correct the port or the scheme")
    } else {
        return None;
    };
    Some(format!("{told} ({words})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_fix() {
        for (words, fix) in [
            ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            (
                "invalid peer certificate: certificate not valid for name \"db\"",
                "by a name it was made for",
            ),
            (
                "invalid peer certificate: certificate expired: 2 s ago",
                "renewed",
            ),
            (
                "received corrupt message of type InvalidContentType",
                "port",
            ),
        ] {
            let told = explained(words, "mq.internal:5671").expect("about TLS");
            assert!(
                told.contains(fix) && told.contains("mq.internal:5671"),
                "{told}"
            );
        }
        assert_eq!(explained("connection refused", "mq"), None);
    }
}
