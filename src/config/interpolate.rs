//! `${VAR}` in any text of the file; `$$` is a dollar sign. A value is put in as it stands.

/// Why a text could not be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The variable is not set.
    Missing(String),
    /// `${` without `}`, or a name no variable can have.
    Malformed,
}

/// What to do about a variable that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is an error.
    Refuse,
    /// `${VAR}` stays in the text: for contexts that are shown, not used.
    Keep,
}

/// Replaces every `${VAR}`; also says which variables were used.
pub(super) fn interpolate(
    text: &str,
    missing: Missing,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, Vec<String>), Fault> {
    let mut out = String::with_capacity(text.len());
    let mut used = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some(tail) = after.strip_prefix('{') {
            let (name, tail) = tail.split_once('}').ok_or(Fault::Malformed)?;
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(Fault::Malformed);
            }
            match (env(name), missing) {
                (Some(value), _) => out.push_str(&value),
                (None, Missing::Keep) => {
                    out.push_str("${");
                    out.push_str(name);
                    out.push('}');
                }
                (None, Missing::Refuse) => return Err(Fault::Missing(name.to_owned())),
            }
            used.push(name.to_owned());
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok((out, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        (name == "A").then(|| "x$${A}".to_owned())
    }

    #[test]
    fn a_variable_is_put_in_once_and_as_it_stands() {
        let got = interpolate("<${A}> $$ $5 ${A}", Missing::Refuse, &env).expect("complete");
        assert_eq!(got.0, "<x$${A}> $ $5 x$${A}");
        assert_eq!(got.1, ["A", "A"]);
    }

    #[test]
    fn a_missing_or_malformed_variable_is_told() {
        assert_eq!(
            interpolate("${B}", Missing::Refuse, &env),
            Err(Fault::Missing("B".into()))
        );
        assert_eq!(
            interpolate("a${B}", Missing::Keep, &env).expect("kept").0,
            "a${B}"
        );
        for text in ["${A", "${}", "${A B}"] {
            assert_eq!(
                interpolate(text, Missing::Keep, &env),
                Err(Fault::Malformed),
                "{text}"
            );
        }
    }
}
