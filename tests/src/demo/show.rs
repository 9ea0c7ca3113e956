//! The output at the end of the demo: findings, report page, digest, email, and the result of the
//! check.

use std::fs;

use anyhow::{Context, Result, ensure};
use ebb_model::report::Report;
use tokio::process::Command;

use super::account::REGION;
use super::{Console, Demo, Stage, Verdict, received, sweep};

impl Demo {
    /// Part 5: the output for people.
    pub(super) async fn show(&mut self, stage: &Stage, report: &Report) -> Result<()> {
        let console = self.console;
        console.part(5, "Findings by dollars");
        println!(
            "{}",
            ebb_report::table::table(
                report,
                &console.terminal_style(),
                &ebb_report::zone::Zone::utc()
            )
        );
        let html = sweep::published(&stage.account, &stage.deployed, "report.html").await?;
        let page = self.places.work.join("report.html");
        fs::write(&page, html)?;
        let json = self.places.work.join("report.json");
        fs::write(&json, serde_json::to_vec(report)?)?;
        console.say(format_args!("report: file://{}", page.display()));
        console.say(format_args!("pages: ebb serve --report {}", json.display()));
        let slack = received::slack(&self.places.work)?;
        let emails = received::emails(&stage.account).await?;
        console.say(format_args!(
            "Slack took {} message(s) and SES {} email(s)",
            slack.len(),
            emails.len()
        ));
        let slack_count = slack.len();
        for (name, all) in [("Slack", slack), ("email", emails)] {
            if let Some(first) = all.first() {
                console.say(console.bold(&format!("the first, as {name} shows it:")));
                self.quote_start(&name.to_lowercase(), first)?;
            }
        }
        self.send_test_message(stage, slack_count).await
    }

    /// Has `ebb doctor` send a test message by the deployed function, as a user does.
    async fn send_test_message(&mut self, stage: &Stage, before: usize) -> Result<()> {
        let mut doctor = Command::new(self.places.program("ebb")?);
        stage.account.surround(&mut doctor);
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            doctor.env(name, "test");
        }
        let bucket = &stage.deployed.bucket;
        doctor.args(["doctor", "deployment", "--send-test", "--bucket", bucket]);
        // The simulated account has machines without a probe, so other lines decide the status.
        let output = doctor.kill_on_drop(true).output().await?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = stdout.lines().filter(|line| line.contains("test message"));
        let lines: Vec<&str> = lines.map(str::trim).collect();
        self.console
            .say("ebb doctor deployment --send-test --bucket …");
        self.console.quote(&lines.join("\n"));
        let messages = received::slack(&self.places.work)?;
        let emails = received::emails(&stage.account).await?;
        let is_test = |text: &String| text.contains("Ebb test message of ");
        let accepted = lines.iter().filter(|line| line.ends_with(": accepted"));
        ensure!(
            accepted.count() == 2
                && lines.len() == 2
                && messages.len() == before + 1
                && messages.last().is_some_and(is_test)
                && emails.last().is_some_and(is_test),
            "the test message did not reach Slack and email:\n{stdout}"
        );
        Ok(())
    }

    /// Shows the start of a long text, and writes all of it to a file.
    pub(super) fn quote_start(&self, name: &str, text: &str) -> Result<()> {
        const SHOWN: usize = 30;
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[..lines.len().min(SHOWN)];
        self.console.quote(&shown.join("\n"));
        let path = self.places.work.join(format!("{name}.txt"));
        fs::write(&path, text)?;
        let whole = path.display();
        match lines.len() - shown.len() {
            0 => self.console.say(format_args!("all of it, in {whole}")),
            left => self
                .console
                .say(format_args!("… {left} lines more in {whole}")),
        }
        Ok(())
    }

    /// Serves the pages of the bucket in the simulated account; returns their address.
    ///
    /// # Errors
    /// If the program ends or does not print an address.
    pub async fn serve_pages(&mut self) -> Result<String> {
        let stage = self.stage.as_ref().context("nothing is deployed")?;
        let mut serve = Command::new(self.places.program("ebb")?);
        stage.account.surround(&mut serve);
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            serve.env(name, "test");
        }
        serve.args(["serve", "--port", "0", "--bucket", &stage.deployed.bucket]);
        self.children.start("pages", serve)?;
        let line = self.children.says("pages", "for a browser").await?;
        let address = line.split_whitespace().next().unwrap_or_default();
        Ok(address.to_owned())
    }

    /// Commands that inspect the running demo.
    pub fn how_to_look(&self) -> String {
        let Some(Stage {
            account, deployed, ..
        }) = &self.stage
        else {
            return String::new();
        };
        let aws = format!(
            "AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION={} aws --endpoint-url",
            REGION
        );
        format!(
            "It is left running:\n  \
             curl '{}/v1/findings'\n  \
             {aws} {} s3 ls --recursive s3://{}/\n  \
             {aws} {} lambda invoke --function-name {} /dev/stdout\n  \
             {aws} {} ec2 describe-instances\n  \
             logs: {}",
            deployed.api_url,
            account.platform,
            deployed.bucket,
            account.platform,
            deployed.sweeper_function_name,
            account.inventory,
            self.places.work.join("logs").display(),
        )
    }
}

/// Prints the result of the check.
pub fn tell(console: &Console, verdict: &Verdict) {
    for planted in &verdict.skipped {
        console.say(format_args!(
            "skipped  {planted} (the real probe did not run)"
        ));
    }
    for planted in &verdict.found {
        console.say(format_args!("{}  {planted}", console.green("found  ")));
    }
    for planted in &verdict.missing {
        console.say(format_args!(
            "{}  {planted}: planted, and not found",
            console.red("MISSING")
        ));
    }
    for found in &verdict.extra {
        console.say(format_args!(
            "{}  {found}: called waste, and not planted",
            console.red("EXTRA  ")
        ));
    }
    for id in &verdict.mislabelled {
        console.say(format_args!(
            "{}  {id}: simulated and measured are mixed up",
            console.red("LABEL  ")
        ));
    }
    let words = match (verdict.is_good(), verdict.found.len()) {
        (true, 0) => console.green("good: no waste was planted, and none was found"),
        (true, found) => console.green(&format!(
            "good: all {found} planted and checked were found, and nothing else was called waste"
        )),
        (false, _) => console.red("the findings are not what was planted"),
    };
    console.say(words);
}
