//! The report as one page that needs nothing else: no script, no font, no image
//! from elsewhere. The words come from `view`; the template escapes every one.

use ebb_domain::report::Report;
use minijinja::Environment;
use minijinja::value::Serde;

use super::view::Page;

/// The report as a self-contained page.
pub fn html(report: &Report) -> String {
    fill("report.html", &Page::of(report))
}

/// The page as the HTML part of an email: no style sheet, because mail programs
/// drop it, and no more findings than people read there.
pub(super) fn for_mail(page: &Page) -> String {
    fill("email.html", page)
}

fn fill(template: &str, page: &Page) -> String {
    let mut templates = Environment::new();
    let sources = [
        ("report.html", include_str!("html/report.html")),
        ("style.css", include_str!("html/style.css")),
        ("email.html", include_str!("html/email.html")),
    ];
    for (name, source) in sources {
        templates
            .add_template(name, source)
            .expect("the templates are compiled in and tested");
    }
    templates
        .get_template(template)
        .and_then(|found| found.render(Serde(page)))
        .expect("a page has every field that its template names")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_page_says_dollars_evidence_owner_and_what_to_do() {
        let text = html(&sample::small());
        for expect in [
            "$1,165.08",
            "no workload for 3 h 05 min",
            "ana",
            "aws ec2 stop-instances",
            "3 vCPU and 4.8 GiB",
            "c6i.xlarge in eu-central-1 at $0.1940&#x2f;h",
            "coverage 41 %",
            "batch:DescribeJobs",
            "SIMULATED",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let text = html(&sample::small());
        for foreign in ["http:", "https:", "src=", "@import", "url(", "<script"] {
            assert!(!text.contains(foreign), "{foreign}");
        }
        assert!(text.contains("default-src 'none'"));
    }

    #[test]
    fn what_comes_from_outside_is_text_and_never_markup() {
        let page = html(&sample::hostile());
        let mail = for_mail(&Page::of(&sample::hostile()));
        for text in [page, mail] {
            assert!(!text.contains("<script"), "{text}");
            assert!(text.contains("&lt;script&gt;"));
        }
    }

    #[test]
    fn any_number_of_findings_makes_a_page() {
        assert!(html(&sample::empty()).contains("No waste found"));
        let text = html(&sample::many(1_000));
        assert_eq!(text.matches("<article").count(), 1_000);
    }
}
