//! What a page shows, and what no run file can make it do.

use super::*;
use crate::sample::run;

#[test]
fn a_page_of_nothing_says_so() {
    let page = page(&run(), &[]);
    assert!(page.contains("No point was measured"));
    assert!(page.contains("Everything that was asked has a number"));
}
