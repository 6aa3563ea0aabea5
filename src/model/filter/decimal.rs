//! Decimal numbers of any length, compared by their digits: an order id above 2^53 must not meet
//! its neighbour through a floating point number (P-06).

use std::cmp::Ordering;

/// The value `0.<digits> * 10^exponent`, negative or not. Zero has no digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads `-12`, `3.50`, `1E400`; `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, read_power(power)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        let leading_zeros = i64::try_from(all.len() - significant.len()).ok()?;
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self {
                is_negative: false,
                digits,
                exponent: 0,
            });
        }
        let point = i64::try_from(whole.len()).ok()?;
        Some(Self {
            is_negative,
            digits,
            exponent: power.saturating_add(point - leading_zeros),
        })
    }

    fn magnitude(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            // Digits have no trailing zeros, so a longer text with the same start is larger.
            (false, false) => self
                .exponent
                .cmp(&other.exponent)
                .then_with(|| self.digits.cmp(&other.digits)),
        }
    }
}

/// The power of ten; one that does not fit in 64 bits is as good as the largest that does.
fn read_power(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(if text.starts_with('-') {
        i64::MIN / 2
    } else {
        i64::MAX / 2
    }))
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, false) => self.magnitude(other),
            (true, true) => other.magnitude(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("4634343214213523454", "4634343214213523455", Ordering::Less)]
    #[case("1.10", "1.1", Ordering::Equal)]
    #[case("1E400", "1e399", Ordering::Greater)]
    #[case("-9223372036854775808", "-9223372036854775807", Ordering::Less)]
    #[case("0.001", "1e-3", Ordering::Equal)]
    #[case("-0", "0.00", Ordering::Equal)]
    #[case("1e99999999999999999999", "1e2", Ordering::Greater)]
    #[case("100", "99", Ordering::Greater)]
    #[case("12", "120", Ordering::Less)]
    fn p_06_numbers_compare_exactly(
        #[case] left: &str,
        #[case] right: &str,
        #[case] order: Ordering,
    ) {
        let (left, right) = (Decimal::parse(left), Decimal::parse(right));
        assert_eq!(
            left.expect("a number").cmp(&right.expect("a number")),
            order
        );
    }

    #[rstest]
    #[case("")]
    #[case("-")]
    #[case("1.")]
    #[case(".5")]
    #[case("1e")]
    #[case("0x10")]
    #[case("12a")]
    fn text_is_no_number(#[case] text: &str) {
        assert_eq!(Decimal::parse(text), None);
    }

    proptest! {
        #[test]
        fn integers_order_as_integers(a in any::<i128>(), b in any::<i128>()) {
            let (left, right) = (Decimal::parse(&a.to_string()), Decimal::parse(&b.to_string()));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }
    }
}
