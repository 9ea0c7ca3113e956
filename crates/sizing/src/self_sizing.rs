//! Tools that derive their memory use from their request. Pipelines pass a part of `task.memory` to
//! them, as a Java heap, a sort buffer or a limit of their own. Their peak shows how much of a
//! larger request they took, and a smaller request gives them less.

use ebb_model::advice::self_sizing::SelfSizing;

/// A tool, by words in the names of its steps and executables.
struct Tool {
    name: &'static str,
    /// Words of a step's name, in lower case.
    words: &'static [&'static str],
    /// The option that sets its memory.
    by: &'static str,
}

/// Source: the `task.memory` of these tools' modules in nf-core/modules, and their own manuals.
const TOOLS: [Tool; 22] = [
    tool(
        "GATK",
        &[
            "gatk",
            "gatk4",
            "mutect2",
            "haplotypecaller",
            "baserecalibrator",
            "applybqsr",
        ],
        "-Xmx",
    ),
    tool("Picard", &["picard", "markduplicates"], "-Xmx"),
    tool("Qualimap", &["qualimap"], "--java-mem-size"),
    tool("fgbio", &["fgbio"], "-Xmx"),
    tool("SnpEff", &["snpeff", "snpsift"], "-Xmx"),
    tool(
        "BBMap",
        &["bbmap", "bbduk", "bbsplit", "bbnorm", "clumpify"],
        "-Xmx",
    ),
    tool("UMI-tools", &["umicollapse"], "-Xmx"),
    tool("VarDict", &["vardict", "vardictjava"], "-Xmx"),
    tool("Trimmomatic", &["trimmomatic"], "-Xmx"),
    tool("Pilon", &["pilon"], "-Xmx"),
    tool("FastQC", &["fastqc"], "--memory"),
    tool("Java", &["java"], "-Xmx"),
    tool("samtools sort", &["samtools_sort"], "-m"),
    tool("sambamba", &["sambamba"], "-m"),
    tool(
        "STAR",
        &["star_genomegenerate", "star_align", "star"],
        "--limitBAMsortRAM, --limitGenomeGenerateRAM",
    ),
    tool(
        "SPAdes",
        &["spades", "metaspades", "rnaspades", "unicycler"],
        "-m",
    ),
    tool("MEGAHIT", &["megahit"], "-m"),
    tool("Trinity", &["trinity"], "--max_memory"),
    tool("Cell Ranger", &["cellranger", "spaceranger"], "--localmem"),
    tool("MMseqs2", &["mmseqs", "mmseqs2"], "--split-memory-limit"),
    tool("DIAMOND", &["diamond"], "--memory-limit"),
    tool("Canu", &["canu"], "maxMemory"),
];

/// The part of a request that such tools get, in percent; the remainder is for everything else in
/// the task. Source: `task.memory.mega * 0.8` in nf-core/modules.
const GIVEN_PERCENT: u64 = 80;

const fn tool(name: &'static str, words: &'static [&'static str], by: &'static str) -> Tool {
    Tool { name, words, by }
}

/// The tool by the name of a step, or else by its executables; `None` if neither is a known tool.
pub fn find_self_sizing<'a>(
    step: &str,
    executables: impl IntoIterator<Item = &'a str>,
) -> Option<SelfSizing> {
    let of_step = of_name(step);
    let found = of_step.or_else(|| executables.into_iter().find_map(of_name))?;
    Some(SelfSizing {
        tool: found.name.to_owned(),
        option: found.by.to_owned(),
    })
}

/// The request that gives `peak` to such a tool; both in the same unit.
pub fn request_for(peak: u64) -> u64 {
    let request = u128::from(peak) * 100 / u128::from(GIVEN_PERCENT);
    u64::try_from(request).unwrap_or(u64::MAX)
}

/// Matches whole words of the last part of a name such as `NFCORE:QC:GATK4_APPLYBQSR`.
fn of_name(name: &str) -> Option<&'static Tool> {
    let last = name
        .rsplit([':', '/'])
        .next()
        .unwrap_or(name)
        .to_lowercase();
    let plain: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let has = |word: &&str| format!("_{plain}_").contains(&format!("_{word}_"));
    TOOLS.iter().find(|tool| tool.words.iter().any(&has))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_a_whole_word_of_its_step_or_its_executable() {
        let check = |step: &str, executables: &[&str], expect: Option<&str>| {
            let found = find_self_sizing(step, executables.iter().copied());
            let found = found.map(|found| found.tool);
            assert_eq!(found.as_deref(), expect, "{step}");
        };
        check("NFCORE_SAREK:SAREK:GATK4_APPLYBQSR", &[], Some("GATK"));
        check("a:PICARD_MARKDUPLICATES", &[], Some("Picard"));
        check("SAMTOOLS_SORT", &[], Some("samtools sort"));
        check("SAMTOOLS_INDEX", &[], None);
        check("STAR_ALIGN", &[], Some("STAR"));
        check("START_UP", &[], None);
        check("align", &["bash", "java"], Some("Java"));
        check("bwa-mem", &["bwa"], None);
    }

    #[test]
    fn a_request_leaves_the_peak_to_the_tool() {
        assert_eq!(request_for(8_000), 10_000);
        assert_eq!(request_for(u64::MAX), u64::MAX);
    }
}
