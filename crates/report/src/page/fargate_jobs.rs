//! Jobs on Fargate: their total cost, and one line for each of the most expensive.

use std::time::Duration;

use ebb_model::report::Report;
use ebb_model::report::fargate_jobs::FargateJob;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::page::money::age;
use crate::page::wording::LINE_CHARS;

/// Number of shown jobs; the JSON report contains more.
const NAMED: usize = 5;

pub fn lines(report: &Report) -> Vec<String> {
    let fargate = &report.fargate;
    let ran: Vec<&FargateJob> = fargate
        .jobs
        .iter()
        .filter(|job| job.ran.is_some())
        .collect();
    if ran.is_empty() {
        return Vec::new();
    }
    let mut sum = format!(
        "{}, {} in total at the list price {}",
        counted(ran.len(), "job", "jobs"),
        ran.iter().filter_map(|job| job.cost).sum::<Usd>(),
        age(oldest(&ran), report.at)
    );
    let unpriced: Vec<&str> = ran
        .iter()
        .filter_map(|job| job.unpriced.as_deref())
        .collect();
    if let Some(why) = unpriced.first() {
        let many = counted(unpriced.len(), "job", "jobs");
        sum.push_str(&format!(
            "; no price is known for {many}: {}",
            one_line(why)
        ));
    }
    if fargate.left_out > 0 {
        sum.push_str(&format!(
            "; {} not shown",
            counted(fargate.left_out, "older job", "older jobs")
        ));
    }
    let mut dearest = ran;
    dearest.sort_by(|a, b| (b.cost, b.ran, &a.id).cmp(&(a.cost, a.ran, &b.id)));
    let each = dearest.into_iter().take(NAMED).map(job);
    [sum].into_iter().chain(each).collect()
}

/// Date of the oldest price; `None` if one price has no date.
fn oldest(jobs: &[&FargateJob]) -> Option<Timestamp> {
    let priced = jobs.iter().filter(|job| job.cost.is_some());
    priced.map(|job| job.price_as_of).min().flatten()
}

fn job(job: &FargateJob) -> String {
    let cores = job.asks.cores.map(|cores| format!("{cores} vCPU"));
    let memory = job.asks.memory.map(|memory| memory.to_string());
    let asks: Vec<String> = cores.into_iter().chain(memory).collect();
    let ran = Duration::from_secs(job.ran.unwrap_or_default().as_secs());
    let mut line = format!(
        "{} ({}): {}, {}",
        one_line(&clip(&job.name, LINE_CHARS)),
        one_line(job.id.as_str()),
        if asks.is_empty() {
            "request not known".to_owned()
        } else {
            asks.join(", ")
        },
        HumanDuration(ran),
    );
    if let Some(cost) = job.cost {
        line.push_str(&format!(", {cost}"));
    }
    let used = [(job.cpu, "cores"), (job.memory, "memory")];
    let used = used.map(|(share, what)| share.map(|share| format!("{share} of its {what}")));
    let used: Vec<String> = used.into_iter().flatten().collect();
    if !used.is_empty() {
        line.push_str(&format!(
            "; Container Insights: the busiest task of its task definition family used at most {}",
            used.join(" and ")
        ));
    }
    if let Some(why) = &job.not_evaluated {
        line.push_str(&format!("; not evaluated: {}", one_line(why)));
    }
    line
}

#[cfg(test)]
mod tests {
    use ebb_model::advice::sized_request::SizedRequest;
    use ebb_model::inventory::batch::job::{JobId, JobStatus};
    use ebb_model::report::fargate_jobs::FargateJobs;
    use ebb_telemetry::identity::Region;
    use ebb_telemetry::origin::Origin;
    use ebb_telemetry::units::{Bytes, MilliCores, Share};

    use super::*;
    use crate::testing;

    fn ran(id: &str, minutes: Option<u64>, cost: Option<i64>) -> FargateJob {
        FargateJob {
            id: JobId::new(id).expect("a job id"),
            name: "al\nign".to_owned(),
            definition: None,
            queue: "q".to_owned(),
            region: Region::new("us-east-1").expect("a region"),
            owner: None,
            origin: Origin::Measured,
            status: JobStatus::Running,
            reason: None,
            task: None,
            task_status: None,
            asks: SizedRequest {
                cores: Some(MilliCores::cores(2)),
                memory: Some(Bytes::gib(4)),
            },
            started_at: None,
            stopped_at: None,
            ran: minutes.map(|minutes| Duration::from_secs(60 * minutes)),
            market: None,
            per_hour: None,
            cost: cost.map(Usd::from_micros),
            price_as_of: None,
            unpriced: cost.is_none().then(|| "nobody told".to_owned()),
            cpu: Some(Share::from_ppm(250_000)),
            memory: None,
            not_evaluated: None,
        }
    }

    #[test]
    fn what_ran_is_summed_up_and_the_dearest_come_first() {
        let jobs = vec![
            ran("j-1", Some(60), Some(1_000_000)),
            ran("j-2", Some(60), Some(2_000_000)),
            ran("j-3", Some(60), None),
            ran("j-4", None, None),
        ];
        let mut report = testing::empty();
        assert_eq!(lines(&report), Vec::<String>::new());
        report.fargate = FargateJobs { jobs, left_out: 0 };
        insta::assert_snapshot!(lines(&report).join("\n"), @r"
        3 jobs, $3.00 in total at the list price of unknown date; no price is known for 1 job: nobody told
        al ign (j-2): 2 vCPU, 4.0 GiB, 60 min, $2.00; Container Insights: the busiest task of its task definition family used at most 25 % of its cores
        al ign (j-1): 2 vCPU, 4.0 GiB, 60 min, $1.00; Container Insights: the busiest task of its task definition family used at most 25 % of its cores
        al ign (j-3): 2 vCPU, 4.0 GiB, 60 min; Container Insights: the busiest task of its task definition family used at most 25 % of its cores
        ");
    }
}
