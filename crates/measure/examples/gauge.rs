use costof_measure::gauge;
fn main() {
    costof_os::affinity::pin(&[1]).expect("pin");
    let read = gauge::reader();
    for _ in 0..3 {
        let mut r: Vec<f64> = (0..20000).map(|_| read()).collect();
        let p = gauge::plateau(&r);
        r.sort_by(f64::total_cmp);
        let q = |p: f64| r[(p * (r.len() - 1) as f64) as usize];
        println!(
            "plateau {p:?} min {:.4} p1 {:.4} p5 {:.4} p10 {:.4} p25 {:.4} p50 {:.4} p75 {:.4} p90 {:.4} p99 {:.4}",
            r[0],
            q(0.01),
            q(0.05),
            q(0.1),
            q(0.25),
            q(0.5),
            q(0.75),
            q(0.9),
            q(0.99)
        );
    }
}
