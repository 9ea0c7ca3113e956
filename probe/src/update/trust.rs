//! Files that decide what root installs must not be writable for others.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, ensure};

/// Refuses a file if another user than root and this one could change or replace it.
pub(super) fn check(file: &Path) -> anyhow::Result<()> {
    let file =
        fs::canonicalize(file).with_context(|| format!("failed to find {}", file.display()))?;
    let own = rustix::process::geteuid().as_raw();
    for path in file.ancestors() {
        let about = fs::metadata(path);
        let about = about.with_context(|| format!("failed to read {}", path.display()))?;
        ensure!(
            about.uid() == 0 || about.uid() == own,
            "{} belongs to another user, who could change what is installed",
            path.display()
        );
        // In a folder such as /tmp, only the owner of a file can replace it.
        let is_sticky = about.is_dir() && about.mode() & 0o1000 != 0;
        ensure!(
            about.mode() & 0o022 == 0 || is_sticky,
            "other users can write {}: chmod go-w {}",
            path.display(),
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_can_write_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("probe.toml");
        fs::write(&file, "").expect("written");
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
        };
        mode(&file, 0o644);
        check(&file).expect("only the owner can write it");
        mode(&file, 0o664);
        let refused = check(&file).expect_err("the group").to_string();
        assert!(refused.contains("other users can write"), "{refused}");
        mode(&file, 0o644);
        mode(folder.path(), 0o777);
        assert!(check(&file).is_err(), "others can replace it");
        mode(folder.path(), 0o700);
        assert!(check(&folder.path().join("missing")).is_err());
    }
}
