//! A finding: a sentence derived from points, with the points that are its evidence.

use costof_model::Text;
use costof_model::point::Point;

/// What points mean, in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What kind of finding, as a short identifier.
    pub kind: Text,
    /// What was found.
    pub sentence: String,
    /// What the reader can do about it, where there is something to do.
    pub advice: Option<String>,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}
