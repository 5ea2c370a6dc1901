//! What is the same after it was written and read.

use serde_json::Value;

/// Whether two values are the same, except that a number may have lost its last digit: serde_json reads
/// numbers as fast as it can.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other
                || match (one.as_f64(), other.as_f64()) {
                    (Some(one), Some(other)) => (one - other).abs() <= 1e-12 * one.abs(),
                    _ => false,
                }
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let mut fields = one.iter();
            one.len() == other.len()
                && fields
                    .all(|(name, one)| other.get(name).is_some_and(|other| is_same(one, other)))
        }
        (one, other) => one == other,
    }
}
