//! Which rules apply when the source cannot be read: the last good rules with their mask, from a
//! copy on the disk; without a copy, the built-in rules with all names masked.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Rules;
use super::source::{self, RulesLookup, RulesSource, SourceError};
use crate::durable;

/// The copy's name in the state folder.
const COPY: &str = "rules.toml";

/// Limit of one read: the probe starts to observe only once it has rules.
const LONGEST: Duration = Duration::from_secs(15);

/// The rules that apply, and whether they are the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveRules {
    /// The rules that apply.
    pub rules: Rules,
    /// Why all names are masked; `None` if the rules decide which names are masked.
    pub masked_because: Option<String>,
}

impl ActiveRules {
    const fn new(rules: Rules) -> Self {
        Self {
            rules,
            masked_because: None,
        }
    }

    fn masked(because: String) -> Self {
        Self {
            rules: Rules::masking_all(),
            masked_because: Some(because),
        }
    }
}

/// Whether this folder has a copy that can be read.
pub fn has_copy(folder: &Path) -> bool {
    source::read_file(&folder.join(COPY)).is_ok()
}

/// The copy on the disk.
enum RulesCopy {
    Good(Rules),
    /// There were rules, and their mask is unknown.
    Damaged,
    Missing,
}

/// Reads rules, and keeps a copy of the last good ones.
pub struct RulesKeeper {
    source: RulesSource,
    copy: Option<PathBuf>,
    /// Whether there were rules before. If so, a denied read does not mean that there are none.
    had_rules: bool,
    is_masking: bool,
    /// The last error, so that it is logged once.
    problem: Option<String>,
}

/// How often rules are read again while all names are masked.
const WHILE_MASKING: Duration = Duration::from_secs(60);

impl RulesKeeper {
    /// A keeper with its copy in `folder`; without a folder there is no copy.
    pub fn new(source: RulesSource, folder: Option<&Path>) -> Self {
        Self {
            source,
            copy: folder.map(|folder| folder.join(COPY)),
            had_rules: false,
            is_masking: false,
            problem: None,
        }
    }

    /// Time until the rules are read again.
    pub fn period(&self) -> Duration {
        match self.is_masking {
            true => self.source.period().min(WHILE_MASKING),
            false => self.source.period(),
        }
    }

    /// The rules at the start.
    pub async fn first(&mut self) -> ActiveRules {
        let copy = self.copy();
        self.had_rules = !matches!(copy, RulesCopy::Missing);
        let problem = match self.read().await {
            Ok(RulesLookup::Rules(rules, text)) => return self.accept(rules, &text),
            Ok(RulesLookup::Nothing) => return self.accept_none(),
            Ok(RulesLookup::Denied) if !self.had_rules => return self.accept_none(),
            Ok(RulesLookup::Denied) => Problem::denied(),
            Err(error) => Problem::from(error),
        };
        let Problem { short, whole } = problem;
        self.problem = Some(whole.clone());
        if let RulesCopy::Good(rules) = copy {
            tracing::warn!(
                error = whole,
                "failed to read the rules; the last good rules apply"
            );
            return ActiveRules::new(rules);
        }
        tracing::error!(
            error = whole,
            "failed to read the rules, and there is no copy of them; all names are masked until they can be read"
        );
        self.is_masking = true;
        ActiveRules::masked(short)
    }

    /// The rules as they are now; `None` if they cannot be read, so that the present rules stay.
    pub async fn reload(&mut self) -> Option<ActiveRules> {
        let Problem { whole, .. } = match self.read().await {
            Ok(RulesLookup::Rules(rules, text)) => return Some(self.accept(rules, &text)),
            Ok(RulesLookup::Nothing) => return Some(self.accept_none()),
            Ok(RulesLookup::Denied) if !self.had_rules => return Some(self.accept_none()),
            Ok(RulesLookup::Denied) => Problem::denied(),
            Err(error) => Problem::from(error),
        };
        if self.problem.as_ref() != Some(&whole) {
            tracing::warn!(
                error = whole,
                "failed to read the rules; the current rules stay"
            );
            self.problem = Some(whole);
        }
        None
    }

    async fn read(&self) -> Result<RulesLookup, SourceError> {
        let read = tokio::time::timeout(LONGEST, self.source.read()).await;
        let seconds = LONGEST.as_secs();
        read.unwrap_or(Err(SourceError::NoAnswer { seconds }))
    }

    fn copy(&self) -> RulesCopy {
        let Some(copy) = &self.copy else {
            return RulesCopy::Missing;
        };
        match source::read_file(copy) {
            Ok(RulesLookup::Rules(rules, _)) => RulesCopy::Good(rules),
            Err(SourceError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                RulesCopy::Missing
            }
            _ => RulesCopy::Damaged,
        }
    }

    fn accept(&mut self, rules: Rules, text: &str) -> ActiveRules {
        (self.had_rules, self.is_masking, self.problem) = (true, false, None);
        if let Some(copy) = &self.copy
            && !fs::read(copy).is_ok_and(|kept| kept == text.as_bytes())
            && let Err(error) = durable::write_file(copy, text.as_bytes())
        {
            tracing::warn!(
                error = %error.source,
                "{error}; if the rules cannot be read after a restart, all names are masked"
            );
        }
        ActiveRules::new(rules)
    }

    fn accept_none(&mut self) -> ActiveRules {
        (self.had_rules, self.is_masking, self.problem) = (false, false, None);
        if let Some(copy) = &self.copy {
            let _ = fs::remove_file(copy);
        }
        ActiveRules::new(Rules::built_in())
    }
}

/// Why rules cannot be read.
struct Problem {
    /// For the heartbeat. It quotes nothing of the rules, which can contain names to mask.
    short: String,
    /// For the node's log.
    whole: String,
}

impl Problem {
    fn denied() -> Self {
        let words = "the bucket denies reading the rules".to_owned();
        Self {
            short: words.clone(),
            whole: words,
        }
    }
}

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        Self {
            short: error.to_string(),
            whole: format!("{:#}", anyhow::Error::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::sync::{Arc, Mutex};

    use ebb_cloud::ports::{CloudError, CloudResult, Etag, Listed, Object, Objects, PutOptions};
    use jiff::Timestamp;

    use super::*;

    const GOOD: &str = "mask = [\"patient*\"]";

    /// State of the rules file.
    enum Is {
        Good,
        Broken,
        Gone,
    }

    #[derive(Debug, Clone, Copy, Default)]
    enum Answer {
        #[default]
        Denied,
        Missing,
        Unreachable,
        Rules,
    }

    /// A bucket that answers as the test wants.
    #[derive(Debug, Clone, Default)]
    struct Bucket(Arc<Mutex<Answer>>);

    impl Bucket {
        fn answers(&self, answer: Answer) {
            *self.0.lock().expect("one test") = answer;
        }
    }

    #[async_trait::async_trait]
    impl Objects for Bucket {
        async fn get(&self, key: &str, _: u64) -> CloudResult<Object> {
            let operation = "s3:GetObject".to_owned();
            let (what, message) = (key.to_owned(), "no".to_owned());
            match *self.0.lock().expect("one test") {
                Answer::Denied => Err(CloudError::Denied { operation, message }),
                Answer::Missing => Err(CloudError::Missing { operation, what }),
                Answer::Unreachable => Err(CloudError::Failed { operation, message }),
                Answer::Rules => Ok(Object {
                    bytes: GOOD.into(),
                    etag: Etag(String::new()),
                    modified_at: Timestamp::UNIX_EPOCH,
                }),
            }
        }

        async fn put(&self, _: &str, _: Vec<u8>, _: PutOptions) -> CloudResult<Etag> {
            unreachable!("rules are only read")
        }

        async fn list(&self, _: &str, _: Option<&str>, _: usize) -> CloudResult<Vec<Listed>> {
            unreachable!("rules are only read")
        }

        async fn delete(&self, _: &[String]) -> CloudResult<()> {
            unreachable!("rules are only read")
        }
    }

    fn file_source(folder: &Path, is: &Is) -> RulesSource {
        let file = folder.join("wanted.toml");
        match is {
            Is::Good => fs::write(&file, GOOD).expect("written"),
            Is::Broken => fs::write(&file, "[[rule").expect("written"),
            Is::Gone => drop(fs::remove_file(&file)),
        }
        RulesSource::File(file)
    }

    fn shows(held: &ActiveRules) -> [bool; 2] {
        ["patient7", "bwa"].map(|name| held.rules.show(name))
    }

    /// Each call of `start` is a start of the probe on the same folder.
    #[tokio::test(flavor = "current_thread")]
    async fn the_last_good_rules_apply_with_their_mask_after_a_restart() {
        let (state, wanted) = (tempfile::tempdir(), tempfile::tempdir());
        let (state, wanted) = (state.expect("a folder"), wanted.expect("a folder"));
        let start = async |is: Is| {
            let source = file_source(wanted.path(), &is);
            RulesKeeper::new(source, Some(state.path())).first().await
        };
        // Without any good rules the mask is unknown.
        for is in [Is::Broken, Is::Gone] {
            let held = start(is).await;
            assert_eq!(shows(&held), [false, false]);
            let because = held.masked_because.expect("it says why");
            assert!(because.contains("the rules"), "{because}");
        }
        for is in [Is::Good, Is::Broken, Is::Gone] {
            let held = start(is).await;
            assert_eq!((shows(&held), held.masked_because), ([false, true], None));
        }
        let copy = state.path().join(COPY);
        assert_eq!(fs::metadata(&copy).expect("kept").mode() & 0o777, 0o600);
        // With a damaged copy the mask is unknown.
        fs::write(&copy, "mask = 7").expect("written");
        assert_eq!(shows(&start(Is::Gone).await), [false, false]);
        // Rules that the user removed from the configuration no longer apply.
        let none = RulesKeeper::new(RulesSource::BuiltIn, Some(state.path()))
            .first()
            .await;
        assert_eq!(shows(&none), [true, true]);
        assert!(!copy.exists());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn only_good_rules_replace_the_present_ones() {
        let (state, wanted) = (tempfile::tempdir(), tempfile::tempdir());
        let (state, wanted) = (state.expect("a folder"), wanted.expect("a folder"));
        let source = file_source(wanted.path(), &Is::Gone);
        let mut keeper = RulesKeeper::new(source, Some(state.path()));
        assert_eq!(shows(&keeper.first().await), [false, false]);
        assert_eq!(keeper.reload().await, None);
        file_source(wanted.path(), &Is::Good);
        let held = keeper.reload().await.expect("good ones");
        assert_eq!((shows(&held), held.masked_because), ([false, true], None));
        file_source(wanted.path(), &Is::Broken);
        assert_eq!(keeper.reload().await, None);
    }

    /// A denied read means that there are no rules, unless there were rules before.
    #[tokio::test(flavor = "current_thread")]
    async fn a_denied_read_means_no_rules_only_if_there_never_were_any() {
        let state = tempfile::tempdir().expect("a folder");
        let bucket = Bucket::default();
        let keeper = || {
            let source = RulesSource::Bucket(Box::new(bucket.clone()));
            RulesKeeper::new(source, Some(state.path()))
        };
        bucket.answers(Answer::Denied);
        let mut first = keeper();
        assert_eq!(shows(&first.first().await), [true, true]);
        bucket.answers(Answer::Unreachable);
        assert_eq!(first.reload().await, None);
        bucket.answers(Answer::Rules);
        let held = first.reload().await.expect("good ones");
        assert_eq!(shows(&held), [false, true]);
        bucket.answers(Answer::Denied);
        assert_eq!(first.reload().await, None);
        assert_eq!(shows(&keeper().first().await), [false, true]);
        // A missing object means that the rules were removed.
        bucket.answers(Answer::Missing);
        let held = first.reload().await.expect("none");
        assert_eq!(shows(&held), [true, true]);

        // Masked names are shown once the bucket answers.
        bucket.answers(Answer::Unreachable);
        let mut second = keeper();
        assert_eq!(shows(&second.first().await), [false, false]);
        bucket.answers(Answer::Denied);
        let held = second.reload().await.expect("none");
        assert_eq!((shows(&held), held.masked_because), ([true, true], None));
    }
}
