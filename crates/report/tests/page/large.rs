//! Runs with many points: how long a page becomes. How long making it takes is for the bench to say.

use crate::made::varied;
use costof_report::page::page;

#[test]
fn a_page_of_five_hundred_points_is_under_a_megabyte() {
    let page = page(&varied(500).run(), &[]);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<tr id=\"p").count(), 500);
}

#[test]
fn a_page_of_many_points_shows_their_first_thousands_and_says_so() {
    let page = page(&varied(7000).run(), &[]);
    assert!(page.contains("more in the run file"));
    assert!(page.len() < 20_000_000, "{} bytes", page.len());
}
