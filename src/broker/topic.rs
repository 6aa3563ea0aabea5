//! Topic matching: `*` is one word, `#` is any number of words, words are separated by dots.

/// True when a message with `routing_key` goes through a binding with `pattern`.
pub fn matches(pattern: &str, routing_key: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('.').collect();
    let key: Vec<&str> = routing_key.split('.').collect();
    words_match(&pattern, &key)
}

fn words_match(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern.split_first(), key.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), None) => words_match(rest, key),
        (Some((&"#", rest)), Some((_, key_rest))) => {
            words_match(rest, key) || words_match(pattern, key_rest)
        }
        (Some((word, rest)), Some((key_word, key_rest))) => {
            (*word == "*" || word == key_word) && words_match(rest, key_rest)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;
    use rstest::rstest;

    #[rstest]
    #[case("order.created", "order.created", true)]
    #[case("order.*", "order.created", true)]
    #[case("order.*", "order.created.v2", false)]
    #[case("order.#", "order", true)]
    #[case("#", "", true)]
    #[case("#.v2", "order.created.v2", true)]
    #[case("*", "a.b", false)]
    fn topics(#[case] pattern: &str, #[case] key: &str, #[case] expected: bool) {
        assert_eq!(matches(pattern, key), expected);
    }
}
