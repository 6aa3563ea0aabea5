//! The SQL of a rule: one statement that only reads, with named slots outside of quotes. It runs in a
//! read-only session as well; what is refused here is told at load instead of at three in the morning.

/// What a slot is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The last key of the page before; below every key at first.
    After,
    /// Rows a page.
    Rows,
    /// Keys of a batch, as they came.
    Keys,
    /// Keys of a batch as texts: for a column of texts that is compared with numbers.
    Texts,
}

impl Slot {
    const ALL: [Self; 4] = [Self::After, Self::Rows, Self::Keys, Self::Texts];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::After => ":after",
            Self::Rows => ":rows",
            Self::Keys => ":keys",
            Self::Texts => ":texts",
        }
    }
}

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// SQL.
    Text(String),
    /// A value.
    Slot(Slot),
}

/// A checked statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSql {
    /// Its pieces in order.
    pub pieces: Vec<Piece>,
}

/// Why a statement is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlFault {
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub fix: String,
}

/// Words that write, lock, wait or reach beyond the database.
const REFUSED: [&str; 13] = [
    "into",
    "insert",
    "update",
    "delete",
    "lock",
    "get_lock",
    "release_lock",
    "sleep",
    "benchmark",
    "load_file",
    "load_extension",
    "call",
    "drop",
];

fn fault(problem: impl Into<String>, fix: impl Into<String>) -> SqlFault {
    SqlFault {
        problem: problem.into(),
        fix: fix.into(),
    }
}

impl RuleSql {
    /// Reads a statement that has exactly the slots in `needed`, each at least once.
    ///
    /// # Errors
    /// Says what is wrong and what to write.
    pub fn parse(text: &str, needed: &[Slot]) -> Result<Self, SqlFault> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let mut reader = Reader::default();
        reader.read(text)?;
        let words = &reader.words;
        if !matches!(words.first().map(String::as_str), Some("select" | "with")) {
            return Err(fault(
                "is not a query",
                "begin with SELECT (or WITH … SELECT): a rule only reads",
            ));
        }
        if let Some(word) = words.iter().find(|word| REFUSED.contains(&word.as_str())) {
            return Err(fault(
                format!("has the word {word:?}, which a query that only reads does not need"),
                "remove it; quote it if it is the name of a column",
            ));
        }
        if words.windows(2).any(|pair| pair == ["for", "share"]) {
            return Err(fault("locks rows", "remove FOR SHARE"));
        }
        let found = |slot: Slot| reader.pieces.contains(&Piece::Slot(slot));
        for slot in Slot::ALL {
            if needed.contains(&slot) && !found(slot) {
                return Err(fault(
                    format!("does not use {}", slot.name()),
                    match slot {
                        Slot::After => "add WHERE key > :after ORDER BY key LIMIT :rows",
                        Slot::Rows => "end it with LIMIT :rows",
                        Slot::Keys | Slot::Texts => "add WHERE key IN (:keys)",
                    },
                ));
            }
            if !needed.contains(&slot) && found(slot) {
                let names: Vec<_> = needed.iter().map(|slot| slot.name()).collect();
                return Err(fault(
                    format!("uses {}, which has no value here", slot.name()),
                    format!("use {}", names.join(" and ")),
                ));
            }
        }
        Ok(Self {
            pieces: reader.pieces,
        })
    }
}

#[derive(Default)]
struct Reader {
    pieces: Vec<Piece>,
    text: String,
    words: Vec<String>,
    word: String,
}

impl Reader {
    fn read(&mut self, text: &str) -> Result<(), SqlFault> {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let is_word = c.is_alphanumeric() || c == '_';
            if !is_word {
                self.end_word();
            }
            let taken = match c {
                '\'' | '"' | '`' => quoted(rest, c)?,
                '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
                '/' if rest.starts_with("/*!") => {
                    return Err(fault("has a comment that some servers run", "remove it"));
                }
                '/' if rest.starts_with("/*") => rest
                    .find("*/")
                    .map(|at| at + 2)
                    .ok_or_else(|| fault("has a comment without its end", "close it with */"))?,
                ';' => {
                    return Err(fault(
                        "is more than one statement",
                        "write one statement a query",
                    ));
                }
                '?' => {
                    return Err(fault(
                        "has a `?`",
                        "values have names here: :after and :rows, :keys or :texts",
                    ));
                }
                ':' => {
                    self.slot(rest)?;
                    let slot = Slot::ALL.into_iter().find(|s| rest.starts_with(s.name()));
                    rest = rest
                        .get(slot.map_or(1, |slot| slot.name().len())..)
                        .unwrap_or_default();
                    continue;
                }
                c => {
                    if is_word {
                        self.word.extend(c.to_lowercase());
                    }
                    c.len_utf8()
                }
            };
            let (now, later) = rest.split_at(taken);
            self.text.push_str(now);
            rest = later;
        }
        self.end_word();
        self.end_text();
        Ok(())
    }

    fn slot(&mut self, rest: &str) -> Result<(), SqlFault> {
        let name: String = rest
            .chars()
            .skip(1)
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let slot = Slot::ALL
            .into_iter()
            .find(|slot| slot.name().get(1..) == Some(name.as_str()))
            .ok_or_else(|| {
                fault(
                    format!("uses :{name}, which nobody fills"),
                    "use :after and :rows in keys, :keys or :texts in evidence",
                )
            })?;
        self.end_text();
        self.pieces.push(Piece::Slot(slot));
        Ok(())
    }

    fn end_word(&mut self) {
        if !self.word.is_empty() {
            self.words.push(std::mem::take(&mut self.word));
        }
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces
                .push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }
}

/// Bytes of a quoted part. A doubled quote begins the next one; a backslash hides what follows in texts.
fn quoted(rest: &str, quote: char) -> Result<usize, SqlFault> {
    let mut is_hidden = false;
    for (at, c) in rest.char_indices().skip(1) {
        if is_hidden {
            is_hidden = false;
        } else if c == '\\' && quote != '`' {
            is_hidden = true;
        } else if c == quote {
            return Ok(at + c.len_utf8());
        }
    }
    Err(fault(
        format!("has a {quote} that is not closed"),
        "close it",
    ))
}
