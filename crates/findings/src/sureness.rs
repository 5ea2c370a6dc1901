//! How sure a finding is: as sure as the least sure of its points.

use crate::Finding;
use costof_model::{Grade, Point, PointRow, Run};
use std::collections::HashMap;

/// The sureness of a finding's least sure point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sureness {
    /// The worst grade.
    pub grade: Grade,
    /// The smallest number of launches.
    pub launches: u32,
}

/// Finds the row of a point.
pub struct Points<'a>(HashMap<&'a Point, &'a PointRow>);

impl<'a> Points<'a> {
    /// The points of a run.
    pub fn new(run: &'a Run) -> Points<'a> {
        Points(run.points.iter().map(|row| (&row.point, row)).collect())
    }

    /// The row of a point.
    pub fn row(&self, point: &Point) -> Option<&'a PointRow> {
        self.0.get(point).copied()
    }

    /// How sure a finding is; none if none of its points is sound in this run.
    pub fn sureness(&self, finding: &Finding) -> Option<Sureness> {
        let rows = || {
            let rows = finding.evidence.iter().filter_map(|point| self.row(point));
            rows.filter(|row| row.is_sound())
        };
        Some(Sureness {
            grade: rows().map(|row| row.grade).max()?,
            launches: rows().map(|row| row.launches).min()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::tests::{axes, point_row, run};

    #[test]
    fn the_least_sure_point_decides() {
        let mut run = run(&[]);
        for (size, grade, launches) in [(1, Grade::B, 9), (2, Grade::A, 5), (3, Grade::C, 3)] {
            let axes = axes!(size);
            let mut row = point_row("harness.null", "cost", axes, 1.0, (1.0, 1.0));
            (row.grade, row.launches) = (grade, launches);
            run.points.push(row);
        }
        let points = Points::new(&run);
        let sureness = |rows: &[usize]| {
            points.sureness(&Finding {
                kind: Kind::Modes,
                sentence: String::new(),
                advice: None,
                evidence: rows.iter().map(|&row| run.points[row].point.clone()).collect(),
            })
        };
        let of = |grade, launches| Some(Sureness { grade, launches });
        assert_eq!(sureness(&[0, 1]), of(Grade::B, 5));
        assert_eq!(sureness(&[0, 1, 2]), of(Grade::C, 3));
        assert_eq!(sureness(&[]), None);
    }
}
