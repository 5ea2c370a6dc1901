//! What a probe is: its description, and functions that predict, measure and derive.

use crate::meter::Meter;
use crate::own::OwnProbe;
use crate::schedule::Precision;
use costof_model::typed::contains;
use costof_model::{
    Alias, At, Better, Facts, Failure, Headline, Launch, List, MeasuredRows, MetricInfo, Offers,
    Planned, Point, Prediction, ProbeInfo, Relation, Report, Text, TypedPoint, Unit, fail,
};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::LazyLock;
use std::time::Duration;

/// One question with a number for an answer, and how to measure it. [`Probe::new`] makes a probe
/// from a type that implements [`Measure`].
#[derive(Debug)]
pub struct Probe {
    /// The description, as plain data.
    pub info: Info,
    /// In how many interleaved rounds the points of a block are measured: several if points are
    /// compared with each other, one if setting up a point is expensive.
    pub rounds: u32,
    /// Points share a block only if they agree in these axes, because they share what is set up.
    pub blocks_by: &'static [&'static str],
    /// Whether its launches stay on the run's own CPU, whatever uses the core: it asks about that CPU, or about a
    /// device, which costs less on the CPU that serves its interrupts.
    pub is_of_one_cpu: bool,
    /// How long measuring a point takes at least in a launch, in nanoseconds: all its rounds
    /// together, even if the point is given less time.
    pub least_ns: fn(&Point) -> f64,
    /// How much memory a point needs, in bytes; the rest of a worker is small.
    pub memory_bytes: fn(&Point) -> u64,
    /// How much of a disk a point's files take while it is measured, in bytes.
    pub disk_bytes: fn(&Point) -> u64,
    /// On how many CPUs a point's threads and children run. A launch gets the CPUs that its points
    /// ask for, or fewer if the placement has fewer; the role then accepts or refuses.
    pub processors: fn(&Point) -> usize,
    /// The points of the latency table, which may depend on the machine.
    pub headlines: fn(&Facts) -> Vec<Headline>,
    /// The points of the probe's own plan that depend on the machine, besides the headlines and the
    /// default values of its axes: every pair of its cores, as many threads as it has CPUs, another
    /// link. Points of a link are planned if the user asks for that link, or for none and this
    /// machine can create it.
    pub more_points: fn(&Facts) -> Vec<Planned>,
    /// Whether a machine with these facts can have the point at all. If not, only a user who names it gets it
    /// planned.
    pub can_exist: fn(&Point, &Facts) -> bool,
    /// How much longer a run may take if it measures more of this probe than its headlines, for a
    /// plan that is worth the time. A quick run then measures the probe in one round.
    pub budget: Option<Budget>,
    /// The range expected at a point; `None` if no prediction is possible.
    pub predict: fn(&Point, &Facts, &MeasuredRows<'_>) -> Option<Prediction>,
    /// The functions that start the roles, in the order of `info.roles`. The last role leads.
    pub roles: &'static [StartRole],
    /// The definition of a probe of the user's own, which starts its role itself.
    pub own: Option<&'static OwnProbe>,
    /// Turns the reports of the roles, in the order of `info.roles`, into the metrics of the point.
    /// Pure.
    pub derive: fn(&Point, Vec<Report>) -> Report,
}

/// A probe's description.
#[derive(Debug)]
pub enum Info {
    /// Of a probe of costof's own, made when it is first used, since the table is a constant.
    Lazy(LazyLock<ProbeInfo>),
    /// Of another.
    Known(ProbeInfo),
}

impl Deref for Info {
    type Target = ProbeInfo;

    fn deref(&self) -> &ProbeInfo {
        match self {
            Info::Lazy(info) => info,
            Info::Known(info) => info,
        }
    }
}

/// How much longer a run may take because of one probe, at each precision.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    quick: Duration,
    default: Duration,
    full: Duration,
}

impl Budget {
    /// This many seconds with `--quick`, by default and with `--full`.
    pub const fn seconds(quick: u64, default: u64, full: u64) -> Budget {
        Budget {
            quick: Duration::from_secs(quick),
            default: Duration::from_secs(default),
            full: Duration::from_secs(full),
        }
    }

    /// The extra time at this precision.
    pub const fn for_precision(self, precision: Precision) -> Duration {
        match precision {
            Precision::Quick => self.quick,
            Precision::Default => self.default,
            Precision::Full => self.full,
        }
    }
}

/// Names of axes, probes or roles, as a probe declares them.
pub type NameList = &'static [&'static str];

/// One question with a number for an answer, and how to measure it: implemented by the type of the
/// probe's points. Items without a default are required.
///
/// The doc comment of the type describes the probe for `list` and `explain`. Its first paragraph is
/// the question, as a person asks it. The text after it says how the probe measures, and what the
/// number contains. Three sections follow; a probe without one of the first two does not compile:
///
/// - `# Predicted from`: what the predictions are computed from, in words;
/// - `# Sources`: a list of the papers, manuals and kernel documents that the probe relies on;
/// - `# Needs`: a list of what the machine must offer, if not every machine does.
pub trait Measure: TypedPoint {
    /// The version of the method; numbers of different methods are not compared.
    const METHOD: u32 = 1;
    /// What it measures, the primary metric first.
    const METRICS: &'static [Metric];
    /// Probes whose points the predictions use; they are measured first.
    const AFTER: NameList = &[];
    /// As [`ProbeInfo::crossings`].
    const CROSSINGS: &'static [NameList] = &[];
    /// As [`Probe::rounds`].
    const ROUNDS: u32 = 1;
    /// As [`Probe::is_of_one_cpu`].
    const IS_OF_ONE_CPU: bool = false;
    /// As [`Probe::blocks_by`].
    const BLOCKS_BY: NameList = &[];
    /// As [`Probe::budget`].
    const BUDGET: Option<Budget> = None;
    /// As [`Probe::processors`], if it is the same at every point.
    const PROCESSORS: usize = 1;
    /// The names of the roles, in the order in which they are prepared; the last one leads.
    const ROLE_NAMES: NameList = &["only"];
    /// How each role starts: see [`role`].
    const ROLES: &'static [StartRole];

    /// As [`ProbeInfo::aliases`].
    fn aliases() -> Vec<Alias> {
        Vec::new()
    }

    /// As [`Probe::headlines`].
    fn headlines(_facts: &Facts) -> Vec<Headline> {
        Vec::new()
    }

    /// As [`Probe::more_points`].
    fn more_points(_facts: &Facts) -> Vec<Planned> {
        Vec::new()
    }

    /// As [`Probe::can_exist`].
    fn can_exist(_point: &At<Self>, _facts: &Facts) -> bool {
        true
    }

    /// Refuses a point whose values do not go together on any machine: a congestion control of TCP
    /// without TCP. The probe's own plan leaves such points out.
    fn check_axes(_point: &At<Self>) -> Result<(), Failure> {
        Ok(())
    }

    /// As [`Probe::least_ns`].
    fn least_ns(_point: &At<Self>) -> f64 {
        0.0
    }

    /// As [`Probe::memory_bytes`].
    fn memory_bytes(_point: &At<Self>) -> u64 {
        0
    }

    /// As [`Probe::disk_bytes`].
    fn disk_bytes(_point: &At<Self>) -> u64 {
        0
    }

    /// As [`Probe::processors`].
    fn processors(_point: &At<Self>) -> usize {
        Self::PROCESSORS
    }

    /// Relations between its points and others of a run that hold on every machine. A finding
    /// reports rows that contradict them.
    fn relations() -> Vec<Relation> {
        Vec::new()
    }

    /// As [`Probe::predict`].
    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction>;

    /// As [`Probe::derive`]. With one role, its report is the result.
    ///
    /// # Panics
    /// If a probe with several roles has no such function of its own, which is a bug.
    fn derive(_point: &At<Self>, reports: Vec<Report>) -> Report {
        only(reports)
    }
}

/// A metric, as a probe declares it.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, shared by all probes that measure the same thing.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// What it is, and what it contains.
    pub about: &'static str,
}

/// Declares metrics, the primary one first: `/// what it is` and `name: Unit Better,` each.
#[macro_export]
macro_rules! metrics {
    ($($(#[doc = $about:literal])+ $name:ident: $unit:ident $better:ident),+ $(,)?) => {
        &[$($crate::probe::Metric {
            name: stringify!($name),
            unit: costof_model::unit::Unit::$unit,
            better: costof_model::unit::Better::$better,
            about: concat!($($about),+).trim_ascii(),
        }),+]
    };
}

impl Probe {
    /// The probe of this type.
    pub const fn new<M: Measure>() -> Probe {
        const {
            assert!(contains(M::DOC, PREDICTED_FROM), "no section `# Predicted from`");
            assert!(contains(M::DOC, SOURCES), "no section `# Sources`");
        }
        Probe {
            info: Info::Lazy(LazyLock::new(describe::<M>)),
            rounds: M::ROUNDS,
            is_of_one_cpu: M::IS_OF_ONE_CPU,
            blocks_by: M::BLOCKS_BY,
            least_ns: |point| M::least_ns(&point.into()),
            memory_bytes: |point| M::memory_bytes(&point.into()),
            disk_bytes: |point| M::disk_bytes(&point.into()),
            processors: |point| M::processors(&point.into()),
            headlines: M::headlines,
            more_points: M::more_points,
            can_exist: |point, facts| {
                let point = point.into();
                M::check_axes(&point).is_ok() && M::can_exist(&point, facts)
            },
            budget: M::BUDGET,
            predict: |point, facts, measured| M::predict(&point.into(), facts, measured),
            roles: M::ROLES,
            own: None,
            derive: |point, reports| M::derive(&point.into(), reports),
        }
    }
}

impl Probe {
    /// Starts the role at this position of `info.roles`.
    ///
    /// # Errors
    /// Why the launch cannot be measured on this machine.
    pub fn start(&self, position: usize, launch: &Launch) -> Result<Box<dyn Role>, Failure> {
        match (self.own, self.roles.get(position)) {
            (Some(own), _) => own.start(),
            (None, Some(start_role)) => start_role(launch),
            (None, None) => fail!("{} cannot start its role {position}", self.info.id),
        }
    }
}

/// The sections of a probe's doc comment.
const PREDICTED_FROM: &str = " # Predicted from";
const SOURCES: &str = " # Sources";
const NEEDS: &str = " # Needs";

/// The lines of a doc comment under a heading, up to the next one; without a heading, the first ones.
fn section(doc: &'static [&'static str], heading: Option<&str>) -> Vec<&'static str> {
    let lines = doc.iter().map(|line| line.trim_end());
    let skipped = lines.skip_while(|line| heading.is_some_and(|heading| *line != heading));
    let own = skipped.skip(usize::from(heading.is_some()));
    own.take_while(|line| !line.starts_with(" # ")).collect()
}

/// Lines as one paragraph.
fn paragraph(lines: &[&str]) -> Text {
    let words = lines.iter().flat_map(|line| line.split_whitespace());
    Text::Owned(words.collect::<Vec<_>>().join(" "))
}

/// The items of a list, each of which begins with a dash.
fn items(lines: &[&str]) -> List<Text> {
    let items = lines.chunk_by(|_, next| !next.starts_with(" - "));
    let items = items.map(paragraph).filter(|item| !item.is_empty());
    items.map(|item| Text::Owned(item.trim_start_matches("- ").to_owned())).collect()
}

fn describe<M: Measure>() -> ProbeInfo {
    fn texts(texts: &'static [&'static str]) -> List<Text> {
        texts.iter().copied().map(Text::Borrowed).collect()
    }
    let metric = |metric: &Metric| MetricInfo {
        name: Text::Borrowed(metric.name),
        unit: metric.unit,
        better: metric.better,
        about: Text::Borrowed(metric.about),
    };
    let opening = section(M::DOC, None);
    let end_of_question = opening.iter().position(|line| line.is_empty());
    let (question, how) = opening.split_at(end_of_question.unwrap_or(opening.len()));
    ProbeInfo {
        id: Text::Borrowed(M::PROBE),
        method: M::METHOD,
        question: paragraph(question),
        axes: List::Borrowed(M::axes()),
        crossings: M::CROSSINGS.iter().map(|axes| texts(axes)).collect(),
        metrics: M::METRICS.iter().map(metric).collect(),
        how: paragraph(how),
        sources: items(&section(M::DOC, Some(SOURCES))),
        predicted_from: paragraph(&section(M::DOC, Some(PREDICTED_FROM))),
        after: texts(M::AFTER),
        needs: items(&section(M::DOC, Some(NEEDS))),
        relations: List::Owned(M::relations()),
        roles: texts(M::ROLE_NAMES),
        aliases: List::Owned(M::aliases()),
    }
}

/// Starts a role for one launch of one block.
///
/// # Errors
/// Why the block cannot be measured on this machine.
pub type StartRole = fn(&Launch) -> Result<Box<dyn Role>, Failure>;

/// One end's part in a probe, during one launch of one block. For every point, once per round, a
/// role prepares, runs and finishes.
pub trait Role {
    /// Whether the point's operation gives up its CPU and waits for others by design. Waiting is
    /// then part of the measurement, and a launch with such a point does not record it as noise.
    /// Nor does the launch use hardware counters: the kernel saves and restores them at each
    /// context switch, which takes some hundred nanoseconds.
    fn blocks(&self, _point: &Point) -> bool {
        false
    }

    /// Sets up the point, untimed: an arena, a socket, a file. `offers` come from the roles
    /// prepared before; the result goes to the roles prepared after.
    fn prepare(&mut self, _point: &Point, _offers: &Offers) -> Result<Offers, Failure> {
        Ok(Offers::new())
    }

    /// Measures the point.
    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure>;

    /// Checks that the work was done, and adds the evidence as metrics.
    fn finish(&mut self, _point: &Point, _meter: &mut Meter<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

/// One end's part in a probe at points of a type; as [`Role`].
pub trait RoleAt<P> {
    /// As [`Role::blocks`], if it is the same at every point.
    const BLOCKS: bool = false;

    /// As [`Role::blocks`].
    fn blocks(&self, _point: &At<P>) -> bool {
        Self::BLOCKS
    }

    /// As [`Role::prepare`].
    fn prepare(&mut self, _point: &At<P>, _offers: &Offers) -> Result<Offers, Failure> {
        Ok(Offers::new())
    }

    /// As [`Role::run`].
    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure>;

    /// As [`Role::finish`].
    fn finish(&mut self, _point: &At<P>, _meter: &mut Meter<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Turns a role for points of a type into one that a worker can run.
///
/// # Errors
/// None; the signature is that of a [`StartRole`].
pub fn role<P: TypedPoint>(role: impl RoleAt<P> + 'static) -> Result<Box<dyn Role>, Failure> {
    struct Untyped<P, R>(R, PhantomData<P>);

    impl<P: TypedPoint, R: RoleAt<P>> Role for Untyped<P, R> {
        fn blocks(&self, point: &Point) -> bool {
            At::read(point).is_some_and(|point| self.0.blocks(&point))
        }

        fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
            // The controller may run another build.
            let read =
                At::read(point).ok_or_else(|| Failure::error(format!("no point here: {point}")));
            self.0.prepare(&read?, offers)
        }

        fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
            self.0.run(&point.into(), meter)
        }

        fn finish(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
            self.0.finish(&point.into(), meter)
        }
    }

    Ok(Box::new(Untyped(role, PhantomData)))
}

/// A role that has nothing to set up: a function that measures a point.
impl<P, F: FnMut(&At<P>, &mut Meter<'_>) -> Result<(), Failure>> RoleAt<P> for F {
    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self(point, meter)
    }
}

/// Returns the report of the only role.
///
/// # Panics
/// If a probe with several roles uses this, which is a bug.
pub fn only(reports: Vec<Report>) -> Report {
    let [report] = <[Report; 1]>::try_from(reports).expect("one role");
    report
}

/// Returns the report of the leading role, the last one: for a probe whose other roles measure
/// nothing.
///
/// # Panics
/// If a probe has no role, which is a bug.
pub fn leading(mut reports: Vec<Report>) -> Report {
    reports.pop().expect("a report of each role")
}

/// The probe called `id` in a table.
pub fn find<'a>(table: &[&'a Probe], id: &str) -> Option<&'a Probe> {
    table.iter().copied().find(|probe| probe.info.id == id)
}
