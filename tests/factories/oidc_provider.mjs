// A real OpenID Connect provider on loopback: node oidc_provider.mjs PORT ACCOUNTS.json CALLBACK HOME
// It ends with its standard input. Whoever has an account signs in with any password; consent is asked for.
import { readFileSync } from "node:fs";
import { Provider } from "oidc-provider";

const [port, accounts, callback, home] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "tributary",
      client_secret: "a-secret-of-tributary",
      redirect_uris: [callback],
      post_logout_redirect_uris: [home],
    },
  ],
  claims: {
    openid: ["sub"],
    email: ["email", "email_verified"],
    profile: ["preferred_username", "name", "groups"],
  },
  cookies: { keys: ["a-key-of-a-test"] },
  pkce: { required: () => true },
  async findAccount(_context, id) {
    const claims = JSON.parse(readFileSync(accounts, "utf8"))[id];
    return claims && { accountId: id, claims: () => ({ sub: id, ...claims }) };
  },
});

process.stdin.on("end", () => process.exit()).resume();
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
