//! Text to [`Filter`] and back.

use super::decimal::Decimal;
use super::fields::{self, FieldKind, FieldSpec, FilterKind};
use super::{Filter, FilterError, Operator, Term, Test};

/// Reads `text`; fields must belong to `kind`, or to any kind when there is none.
pub(super) fn parse(text: &str, kind: Option<FilterKind>) -> Result<Filter, FilterError> {
    let terms = sources(text)
        .map(|source| read_term(source.1, kind).map_err(|refusal| refused(source, refusal)))
        .collect::<Result<_, _>>()?;
    Ok(Filter { terms })
}

/// As [`parse`], and every value is one that the field can have.
pub(super) fn parse_whole(text: &str, kind: FilterKind) -> Result<Filter, FilterError> {
    let filter = parse(text, Some(kind))?;
    for (source, term) in sources(text).zip(&filter.terms) {
        check_word(kind, term).map_err(|refusal| refused(source, refusal))?;
    }
    Ok(filter)
}

/// The terms as typed, and where each starts, in characters from 1.
fn sources(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let start = text.len() - rest.len();
        let length = term_length(rest);
        let source = rest.get(..length).filter(|source| !source.is_empty())?;
        let column = text.get(..start).map_or(0, |before| before.chars().count()) + 1;
        rest = rest.get(length..).unwrap_or_default().trim_start();
        Some((column, source))
    })
}

fn refused((column, source): (usize, &str), (problem, allowed): Refusal) -> FilterError {
    FilterError {
        column,
        term: source.to_owned(),
        problem,
        allowed,
    }
}

/// A value that no row of the kind can have is a slip of the finger; a wildcard is not.
fn check_word(kind: FilterKind, term: &Term) -> Result<(), Refusal> {
    let Some((name, value)) = term.test.whole_value() else {
        return Ok(());
    };
    let Some(spec) = fields::find(Some(kind), name) else {
        return Ok(());
    };
    let is_known = |word: &&str| word.eq_ignore_ascii_case(value);
    // Empty: what has none.
    if value.is_empty() || spec.values.is_empty() || spec.values.iter().any(is_known) {
        return Ok(());
    }
    Err((
        format!("{name} is never {value:?}"),
        format!("{name}: {}", spec.values.join(", ")),
    ))
}

/// Bytes of the first term: up to a blank that is not in quotes.
pub(super) fn term_length(text: &str) -> usize {
    let value_at = value_start(text);
    let value = text.get(value_at..).unwrap_or_default();
    let bare_length = |part: &str| part.find(char::is_whitespace).unwrap_or(part.len());
    match value.strip_prefix('"').map(closing_quote) {
        Some(Some(quoted)) => {
            let end = value_at + 1 + quoted + 1;
            end + bare_length(text.get(end..).unwrap_or_default())
        }
        Some(None) => text.len(),
        None => value_at + bare_length(value),
    }
}

/// Where the value of a term starts: after `!` and after field and operator, if it has them.
fn value_start(term: &str) -> usize {
    let negation = usize::from(term.starts_with('!'));
    let body = term.get(negation..).unwrap_or_default();
    negation + split_field(body).map_or(0, |(name, operator, _)| name.len() + operator.sign().len())
}

/// Byte offset of the quote that ends a quoted text (whose opening quote is cut off already).
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(index),
            _ => {}
        }
    }
    None
}

/// Field name, operator and the rest, if the term starts with a name and an operator.
fn split_field(body: &str) -> Option<(&str, Operator, &str)> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*');
    let end = body.find(|c| !is_name(c))?;
    let (name, after) = body.split_at_checked(end)?;
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return None;
    }
    Operator::ALL
        .into_iter()
        .find_map(|operator| Some((name, operator, after.strip_prefix(operator.sign())?)))
}

type Refusal = (String, String);

fn read_term(source: &str, kind: Option<FilterKind>) -> Result<Term, Refusal> {
    let (is_negated, body) = match source.strip_prefix('!') {
        Some(body) => (true, body),
        None => (false, source),
    };
    if body.is_empty() || body.starts_with('!') {
        return Err((
            "there is nothing to negate".to_owned(),
            "write one ! directly before a term, e.g. !owner:mia".to_owned(),
        ));
    }
    let test = if let Some((name, operator, value)) = split_field(body) {
        read_field(name, operator, value, kind)?
    } else {
        refuse_equals_sign(body, kind)?;
        Test::Word(read_value(body, false)?.concat())
    };
    if test == Test::Word(String::new()) {
        return Err((
            "the text is empty".to_owned(),
            "leave the term out to match everything".to_owned(),
        ));
    }
    Ok(Term { is_negated, test })
}

/// `state=failed` would be searched for as a text and find nothing: say what was meant.
fn refuse_equals_sign(body: &str, kind: Option<FilterKind>) -> Result<(), Refusal> {
    match body.split_once('=') {
        Some((name, value)) if fields::find(kind, name).is_some() => Err((
            "= is no operator".to_owned(),
            format!("write {name}:{value}, or \"{body}\" to search for that text"),
        )),
        _ => Ok(()),
    }
}

fn read_field(
    name: &str,
    operator: Operator,
    value: &str,
    kind: Option<FilterKind>,
) -> Result<Test, Refusal> {
    let spec = fields::find(kind, name).ok_or_else(|| fields::unknown_field(kind, name))?;
    let pieces = read_value(value, operator == Operator::Equals)?;
    check_value(spec, operator, &pieces)?;
    Ok(Test::Field {
        name: name.to_owned(),
        operator,
        pieces,
    })
}

fn check_value(spec: &FieldSpec, operator: Operator, pieces: &[String]) -> Result<(), Refusal> {
    let value = pieces.first().map_or("", String::as_str);
    let is_order = !matches!(operator, Operator::Equals | Operator::Contains);
    match spec.kind {
        FieldKind::Text if is_order => Err((
            format!("{} is a text and has no order", spec.name),
            format!("write {0}:… (equals) or {0}~… (contains)", spec.name),
        )),
        FieldKind::Number if pieces.len() == 1 && Decimal::parse(value).is_none() => Err((
            format!("{value:?} is no number"),
            format!("write {}{}100", spec.name, operator.sign()),
        )),
        FieldKind::Age if !is_order => Err((
            format!("{} is a length of time and is never met exactly", spec.name),
            format!("write {0}>10m or {0}<1h30m", spec.name),
        )),
        FieldKind::Age if duration_s(value).is_none() => Err((
            format!("{value:?} is no length of time"),
            format!(
                "write a number with ms, s, m, h, d or w, e.g. {}{}1h30m",
                spec.name,
                operator.sign()
            ),
        )),
        FieldKind::Payload if is_order && value.is_empty() => Err((
            "there is nothing to compare with".to_owned(),
            format!("write e.g. {}{}100", spec.name, operator.sign()),
        )),
        FieldKind::Text | FieldKind::Number | FieldKind::Age | FieldKind::Payload => Ok(()),
    }
}

/// Takes quotes and escapes off; cut at `*` when `has_wildcards`.
fn read_value(source: &str, has_wildcards: bool) -> Result<Vec<String>, Refusal> {
    let Some(inner) = source.strip_prefix('"') else {
        return Ok(if has_wildcards {
            source.split('*').map(str::to_owned).collect()
        } else {
            vec![source.to_owned()]
        });
    };
    let end = closing_quote(inner).ok_or_else(|| {
        (
            "the quote is not closed".to_owned(),
            "end the text with \"".to_owned(),
        )
    })?;
    if inner.len() > end + 1 {
        return Err((
            "something follows the closing quote".to_owned(),
            "put a blank after it, or \\\" for a quote inside".to_owned(),
        ));
    }
    let mut pieces = vec![String::new()];
    let mut is_escaped = false;
    for c in inner.get(..end).unwrap_or_default().chars() {
        if c == '\\' && !is_escaped {
            is_escaped = true;
            continue;
        }
        if c == '*' && has_wildcards && !is_escaped {
            pieces.push(String::new());
        } else if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
        is_escaped = false;
    }
    Ok(pieces)
}

/// Seconds of `10m`, `1h30m`, `500ms`, `-5s`; the units must be there, once each at most.
pub(super) fn duration_s(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] = [
        ("ms", 0.001),
        ("w", 604_800.0),
        ("d", 86_400.0),
        ("h", 3_600.0),
        ("m", 60.0),
        ("s", 1.0),
    ];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits_end)?;
        let (unit, seconds) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        total += number.parse::<f64>().ok()? * seconds;
        rest = after.get(unit.len()..)?;
    }
    Some(sign * total)
}

/// A word as it must be typed to be read back as that word.
pub(super) fn quoted_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ',');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    in_quotes(&[word.to_owned()])
}

/// A value as it must be typed; `*` stands between the pieces.
pub(super) fn quoted_value(pieces: &[String]) -> String {
    let needs_quotes = |piece: &String| {
        piece
            .chars()
            .any(|c| c.is_whitespace() || matches!(c, '"' | '\\' | '*'))
    };
    if pieces.len() <= 1 && pieces.first().is_none_or(String::is_empty)
        || pieces.iter().any(needs_quotes)
    {
        return in_quotes(pieces);
    }
    pieces.join("*")
}

fn in_quotes(pieces: &[String]) -> String {
    let mut out = String::from("\"");
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            out.push('*');
        }
        for c in piece.chars() {
            if matches!(c, '"' | '\\' | '*') {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out.push('"');
    out
}
