//! Email through SES.

use async_trait::async_trait;
use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::types::{Body, Content, Destination, EmailContent, Message};

use super::AwsConfig;
use super::error::cloud_error;
use crate::permissions::SEND_EMAIL;
use crate::ports::{CloudResult, Email, Mailer};

/// SES of the account.
#[derive(Debug, Clone)]
pub struct AwsMailer {
    client: Client,
}

impl AwsMailer {
    /// Of the account behind `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            client: Client::new(&config.sdk),
        }
    }
}

#[async_trait]
impl Mailer for AwsMailer {
    async fn send(&self, email: &Email) -> CloudResult<()> {
        let to = Destination::builder()
            .set_to_addresses(Some(email.to.clone()))
            .build();
        self.client
            .send_email()
            .from_email_address(&email.from)
            .destination(to)
            .content(content(email))
            .send()
            .await
            .map(|_| ())
            .map_err(|e| cloud_error(SEND_EMAIL, &email.from, &e))
    }
}

fn content(email: &Email) -> EmailContent {
    let body = Body::builder()
        .text(text(&email.text))
        .html(text(&email.html))
        .build();
    let message = Message::builder()
        .subject(text(&email.subject))
        .body(body)
        .build();
    EmailContent::builder().simple(message).build()
}

fn text(data: &str) -> Content {
    Content::builder()
        .data(data)
        .charset("UTF-8")
        .build()
        .expect("the data is set")
}
