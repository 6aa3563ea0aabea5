//! Payload paths that are never shown (`masked` in the configuration): the value becomes `•••`, the
//! rest of the JSON keeps its order and its digits.

use serde_json::Value;

pub(super) use crate::base::mask::MASK;

/// Masks the payload object `{"encoding", "data", "sha256"}` of an answer. Bytes that are no JSON
/// text cannot be searched for the paths, so all of them are hidden when anything is to be masked.
pub(super) fn payload(payload: &mut Value, masked: &[String]) {
    if masked.is_empty() {
        return;
    }
    let Some(Value::String(data)) = payload.get_mut("data") else {
        return;
    };
    let parsed = serde_json::from_str::<Value>(data);
    *data = match parsed {
        Ok(mut json) => {
            let mut changed = false;
            for path in masked {
                let keys: Vec<&str> = path.split('.').collect();
                changed |= hide(&mut json, &keys);
            }
            if !changed {
                return;
            }
            json.to_string()
        }
        Err(_) => MASK.to_owned(),
    };
}

/// Hides one path; lists are walked through.
fn hide(value: &mut Value, keys: &[&str]) -> bool {
    match (value, keys) {
        (Value::Array(items), keys) => {
            let mut changed = false;
            for item in items {
                changed |= hide(item, keys);
            }
            changed
        }
        (Value::Object(fields), [key, rest @ ..]) => match fields.get_mut(*key) {
            Some(field) if rest.is_empty() => {
                *field = Value::from(MASK);
                true
            }
            Some(field) => hide(field, rest),
            None => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_path_is_hidden_and_the_rest_keeps_its_digits() {
        let mut value = serde_json::json!({ "encoding": "utf8", "data":
            r#"{"z":12345678901234567890.10,"customer":[{"email":"a@b"},{"email":"c@d","n":1}]}"# });
        payload(&mut value, &["customer.email".to_owned()]);
        assert_eq!(
            value["data"],
            r#"{"z":12345678901234567890.10,"customer":[{"email":"•••"},{"email":"•••","n":1}]}"#
        );
        let mut bytes = serde_json::json!({ "encoding": "base64", "data": "AP8=" });
        payload(&mut bytes, &["customer.email".to_owned()]);
        assert_eq!(bytes["data"], MASK);
    }
}
