"""What tokens of known services look like.

Floor: 0. Owns: the table; never: what is done with a secret (`redact`).

A shape has a mark, plain text that every token of it holds: where no mark stands in a text, no pattern is tried.
"""

from __future__ import annotations

import re
from typing import Final

from plait.core.values import dataclass

_BEFORE: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
"""In JSON a line's first word stands behind a backslash and a letter."""
_AFTER: Final = r"(?![A-Za-z0-9_])"


@dataclass(frozen=True, slots=True)
class Shape:
    """Tokens of one kind."""

    service: str
    marks: tuple[str, ...]
    text: str
    """The pattern as it is written."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern; `re` keeps it, and most are never needed."""
        return re.compile(self.text)


def _shape(service: str, marks: str, pattern: str, *, first: str = "", is_bounded: bool = True) -> Shape:
    # A look at the first letter alone spares most of a text the look at what stands before it. A mark begins a token
    # unless `first` says how it begins.
    first = first or "".join(sorted({mark[0] for mark in marks.split()}))
    whole = f"(?=[{first}]){_BEFORE}(?:{pattern}){_AFTER}" if is_bounded else pattern
    return Shape(service, tuple(marks.split()), whole)


SHAPES: Final[tuple[Shape, ...]] = (
    _shape("Anthropic, OpenAI, OpenRouter and others", "sk-", r"sk-(?:ant-|proj-|or-|svcacct-|lf-)?[\w-]{20,}"),
    _shape("Groq", "gsk_", r"gsk_[A-Za-z0-9]{30,}"),
    _shape("xAI", "xai-", r"xai-[A-Za-z0-9]{30,}"),
    _shape("Perplexity", "pplx-", r"pplx-[A-Za-z0-9]{30,}"),
    _shape("NVIDIA", "nvapi-", r"nvapi-[\w-]{30,}"),
    _shape("Replicate", "r8_", r"r8_[A-Za-z0-9]{30,}"),
    _shape("Hugging Face", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    _shape("Fireworks", "fw_", r"fw_[A-Za-z0-9]{20,}"),
    _shape("LangSmith", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _shape("Tavily", "tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9-]{20,}"),
    _shape("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[posur]_[A-Za-z0-9]{30,}"),
    _shape("GitHub, fine-grained", "github_pat_", r"github_pat_\w{20,}"),
    _shape(
        "GitLab",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat- gloas-",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[\w.-]{20,}",
    ),
    _shape("GitLab, runner registration", "GR1348941", r"GR1348941[\w-]{20,}"),
    _shape("Bitbucket and Atlassian", "ATATT3 ATCTT3 ATBB", r"(?:ATATT3|ATCTT3)[\w=-]{30,}|ATBB[A-Za-z0-9]{28,}"),
    _shape("Slack", "xox", r"xox[abeoprs]-[\w-]{10,}"),
    _shape("Slack, app", "xapp-", r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{30,}"),
    _shape(
        "Slack, web hook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{20,}",
        is_bounded=False,
    ),
    _shape("AWS, key id", "AKIA ASIA ABIA ACCA", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}"),
    _shape("Google, API key", "AIza", r"AIza[\w-]{35}"),
    _shape("Google, OAuth", "ya29.", r"ya29\.[\w-]{20,}"),
    _shape("Google, client secret", "GOCSPX-", r"GOCSPX-[\w-]{20,}"),
    _shape(
        "Azure, storage and service bus", "AccountKey= AccessKey=", r"(?:Account|Access)Key=[A-Za-z0-9+/]{40,}={0,2}"
    ),
    _shape("Azure, client secret", "8Q~ 7Q~", r"\w{3}[78]Q~[\w.~-]{31,34}", first=r"\w"),
    _shape("Alibaba", "LTAI", r"LTAI[A-Za-z0-9]{16,24}"),
    _shape("Tencent", "AKID", r"AKID[A-Za-z0-9]{28,}"),
    _shape("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{60,}"),
    _shape("Heroku", "HRKU-", r"HRKU-[\w-]{30,}"),
    _shape("Fly.io", "fm1r_ fm2_ fo1_", r"(?:fm1r|fm2|fo1)_[\w+/=,-]{30,}"),
    _shape("Netlify", "nfp_ nfc_ nfo_", r"nf[pco]_[A-Za-z0-9]{30,}"),
    _shape("Vercel", "vcp_ vci_ vca_ vcr_", r"vc[piar]_[A-Za-z0-9]{24,}"),
    _shape("Cloudflare, origin", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    _shape("Supabase", "sbp_ sb_secret_", r"sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,}"),
    _shape("PlanetScale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{30,}"),
    _shape("Databricks", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _shape("HashiCorp Vault", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{20,}"),
    _shape("Terraform Cloud", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}", first=r"A-Za-z0-9"),
    _shape("Pulumi", "pul-", r"pul-[0-9a-f]{40}"),
    _shape("Doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]+\.)?[A-Za-z0-9]{40,}"),
    _shape("1Password", "ops_ey", r"ops_ey[\w=-]{50,}"),
    _shape("Stripe", "sk_live_ rk_live_ sk_test_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    _shape("Stripe, web hook", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,}"),
    _shape("Square", "sq0atp- sq0csp- sq0idp-", r"sq0(?:atp|csp|idp)-[\w-]{22,}"),
    _shape("Shopify", "shpat_ shpss_ shpca_ shppa_", r"shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}"),
    _shape("EasyPost", "EZAK EZTK", r"EZ[AT]K[A-Za-z0-9]{54}"),
    _shape("Twilio", "SK", r"SK[0-9a-f]{32}"),
    _shape("SendGrid", "SG.", r"SG\.[\w-]{16,}\.[\w-]{32,}"),
    _shape("Mailgun", "key-", r"key-[0-9a-f]{32}"),
    _shape("Mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}", first=r"0-9a-f"),
    _shape("Brevo", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    _shape("HubSpot", "pat-na pat-eu", r"pat-(?:na|eu)\d-[0-9a-f-]{36}"),
    _shape("npm", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _shape("PyPI", "pypi-", r"pypi-AgE[\w-]{40,}"),
    _shape("RubyGems", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    _shape("crates.io", "cio", r"cio[A-Za-z0-9]{32}"),
    _shape("Docker", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,}"),
    _shape("Buildkite", "bkua_", r"bkua_[0-9a-f]{40}"),
    _shape("CircleCI", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[\w]{20,}"),
    _shape("SonarQube", "sqp_ squ_ sqa_", r"sq[pua]_[0-9a-f]{40}"),
    _shape("Sourcegraph", "sgp_", r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}"),
    _shape("Postman", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("Grafana", "glc_ glsa_", r"glc_[\w+/=]{32,}|glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _shape("New Relic", "NRAK- NRJS- NRAA-", r"NR(?:AK|AA)-[A-Z0-9]{27}|NRJS-[0-9a-f]{19}"),
    _shape("Sentry", "sntrys_ sntryu_", r"sntry[su]_[\w+/=]{40,}"),
    _shape("Dynatrace", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{60,}"),
    _shape("Datadog", "ddapp_", r"ddapp_[A-Za-z0-9]{30,}"),
    _shape("Linear", "lin_", r"lin_(?:api|oauth|wh)_[A-Za-z0-9]{32,}"),
    _shape("Notion", "secret_ ntn_", r"secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,}"),
    _shape("Figma", "figd_ figo_", r"fig[do]_[\w-]{40,}"),
    _shape("Airtable", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _shape("Contentful", "CFPAT-", r"CFPAT-[\w-]{40,}"),
    _shape("Telegram", ":AA", r"\d{8,10}:AA[\w-]{33}", first=r"\d"),
    _shape("Discord", ".", r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,40}", first=r"MNO"),
    _shape(
        "Discord, web hook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d+/[\w-]{60,}", is_bounded=False
    ),
    _shape("Dropbox", "sl.", r"sl\.(?:u\.)?[\w-]{100,}"),
    _shape("Facebook", "EAA", r"EAA[A-Za-z0-9]{60,}"),
    _shape("Mapbox", "sk.eyJ", r"sk\.eyJ[\w-]{20,}\.[\w-]{20,}"),
    _shape("Prefect", "pnu_ pnb_", r"pn[ub]_[A-Za-z0-9]{36}"),
    _shape("ReadMe", "rdme_", r"rdme_[a-z0-9]{60,}"),
    _shape("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape("a JSON web token", "eyJ", r"(?<!-)eyJ[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]{10,}"),
    _shape("an encrypted web token", "eyJ", r"(?<!-)eyJ[\w-]{20,}+\.[\w-]*+\.[\w-]{10,}+\.[\w-]{10,}+\.[\w-]{10,}"),
)
