//! Email through SES.

use async_trait::async_trait;
use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::types::{
    Body, Content, Destination, EmailContent, ListManagementOptions, Message, MessageHeader,
};

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::{GET_SES_ACCOUNT, SEND_EMAIL};
use crate::ports::{CloudResult, Email, Mailer};

/// SES of the account.
#[derive(Debug, Clone)]
pub struct AwsMailer {
    client: Client,
    contact_list: Option<String>,
}

impl AwsMailer {
    /// For the account of `config`. With a contact list, SES adds the header for one-click
    /// unsubscription and sends no more email to unsubscribed recipients. Without one, the header
    /// contains an email address to unsubscribe.
    ///
    /// Source: SES developer guide, "Using subscription management"; RFC 2369, 8058.
    pub fn new(config: &AwsConfig, contact_list: Option<String>) -> Self {
        Self {
            client: Client::new(&config.sdk),
            contact_list,
        }
    }
}

#[async_trait]
impl Mailer for AwsMailer {
    async fn send(&self, email: &Email) -> CloudResult<()> {
        let to = Destination::builder()
            .set_to_addresses(Some(email.to.clone()))
            .build();
        let list = self.contact_list.as_ref().map(|name| {
            let options = ListManagementOptions::builder().contact_list_name(name);
            options.build().expect("the name is set")
        });
        self.client
            .send_email()
            .from_email_address(&email.from)
            .destination(to)
            .content(content(email, list.is_none()))
            .set_list_management_options(list)
            .send()
            .await
            .map(|_| ())
            .map_err(|e| cloud_error(SEND_EMAIL, &email.from, &e))
    }

    async fn is_sandboxed(&self) -> CloudResult<bool> {
        let account = self.client.get_account().send().await;
        let account = account.map_err(|e| cloud_error(GET_SES_ACCOUNT, "the account", &e))?;
        Ok(!account.production_access_enabled())
    }
}

fn content(email: &Email, unsubscribe_by_email: bool) -> EmailContent {
    let body = Body::builder()
        .text(text(&email.text))
        .html(text(&email.html))
        .build();
    let message = Message::builder()
        .subject(text(&email.subject))
        .body(body)
        .set_headers(unsubscribe_by_email.then(|| vec![unsubscribe(&email.from)]))
        .build();
    EmailContent::builder().simple(message).build()
}

fn unsubscribe(from: &str) -> MessageHeader {
    // The sender can include a name: `Ebb <ebb@example.com>`.
    let address = from.rsplit('<').next().unwrap_or(from);
    let address = address.trim_end_matches('>').trim();
    let address = format!("<mailto:{address}?subject=unsubscribe>");
    let header = MessageHeader::builder().name("List-Unsubscribe");
    let header = header.value(address).build();
    header.expect("name and value are set")
}

fn text(data: &str) -> Content {
    Content::builder()
        .data(data)
        .charset("UTF-8")
        .build()
        .expect("the data is set")
}
