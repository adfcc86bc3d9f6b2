/** Small parts that every tab uses: buttons, chips, copying, and the states of being empty, read, and failed. */
import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "./format";
import { Icon, type IconName } from "./icons";
import type { Failure as Reason } from "./protocol";
import "./states.css";

const COPIED_SECONDS = 2;

/** Grey shapes of the size that the answer will have. Put `rows` lines of it where text will be. */
export function Skeleton(parts: { width?: string; height?: string; rows?: number; label?: string }) {
  const { width = "100%", height = "12px", rows = 1, label: name } = parts;
  const lines = Array.from({ length: rows }, (_, i) => (
    <span key={i} class="sx-skeleton" style={{ width: rows > 1 && i % 3 === 2 ? "70%" : width, height }} />
  ));
  return (
    <span class="sx-skeletons" aria-busy="true" aria-label={name} role={name === undefined ? undefined : "img"}>
      {lines}
    </span>
  );
}

/** Nothing is here, and what to do about it. */
export function Empty(parts: {
  title: string;
  icon?: IconName;
  children?: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class="sx-empty">
      {parts.icon && <Icon name={parts.icon} />}
      <h3 class="sx-title">{parts.title}</h3>
      {parts.children && <div class="sx-muted">{parts.children}</div>}
      {parts.action && <div class="sx-empty-action">{parts.action}</div>}
    </div>
  );
}

/** What went wrong and how to fix it. */
export function Failure(parts: { failure: Reason; onRetry?: () => void; children?: ComponentChildren }) {
  const { failure, onRetry, children } = parts;
  return (
    <div class="sx-failure" role="alert">
      <Icon name="warning" />
      <div class="sx-failure-text">
        <p>{failure.message}</p>
        {failure.hint && <p class="sx-muted">{failure.hint}</p>}
        {children}
      </div>
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** What was done, said once to readers of the screen. */
export function Status({ children }: { children: ComponentChildren }) {
  return <div class="sx-status" role="status">{children}</div>;
}

export type Tone = "quiet" | "accent" | "added" | "changed" | "removed" | "warning";

/** A short fact in a rounded box. */
export function Chip(parts: { children: ComponentChildren; tone?: Tone; title?: string }) {
  return <span class={`sx-chip sx-chip-${parts.tone ?? "quiet"}`} title={parts.title}>{parts.children}</span>;
}

interface ButtonParts extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: "plain" | "primary" | "quiet" | "danger" | "outline";
  icon?: IconName;
  children?: ComponentChildren;
}

/** A button. With `icon` and no children it is a square, which needs `aria-label`; its title is then the same. */
export function Button({ look = "plain", icon, children, class: more, ...rest }: ButtonParts) {
  const isSquare = icon !== undefined && children === undefined;
  const classes = `sx-button sx-button-${look}${isSquare ? " sx-button-square" : ""}${more ? ` ${String(more)}` : ""}`;
  const title = rest.title ?? (isSquare ? rest["aria-label"] : undefined);
  return (
    <button type="button" {...rest} {...(title === undefined ? {} : { title })} class={classes}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** Two or more choices side by side, of which one is on. `many` is a number beside the title. */
export function Segments<T extends string>(parts: {
  label: string;
  options: { value: T; title: string; many?: number }[];
  value: T;
  onChoose: (value: T) => void;
}) {
  return (
    <div class="sx-segments" role="group" aria-label={parts.label}>
      {parts.options.map(({ value, title, many }) => (
        <button
          key={value} type="button" class="sx-segment" aria-pressed={value === parts.value}
          onClick={() => parts.onChoose(value)}
        >
          {title}
          {many !== undefined && <span class="sx-muted sx-segment-many"> {count(many)}</span>}
        </button>
      ))}
    </div>
  );
}

/** Names and what is said of each. */
export function Facts({ facts, class: name }: { facts: [name: string, value: ComponentChildren][]; class: string }) {
  return (
    <dl class={name}>
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt class="sx-muted">{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface SearchParts {
  label: string;
  value: string;
  onText: (text: string) => void;
  onKeyDown?: (event: KeyboardEvent) => void;
  placeholder?: string; // the label unless given
  title?: string;
  "aria-controls"?: string;
}

/** A field that finds something as one types. */
export function SearchField({ label, onText, ...rest }: SearchParts) {
  return (
    <input
      class="sx-field" type="search" aria-label={label} placeholder={label} spellcheck={false}
      onInput={(event) => onText(event.currentTarget.value)} {...rest}
    />
  );
}

/** A button that copies `text` and says so for two seconds. */
export function Copy(parts: { text: string; label?: string; look?: "plain" | "quiet"; name?: string }) {
  const [copied, setCopied] = useState(false);
  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const onClick = async (event: MouseEvent): Promise<void> => {
    await copyText(parts.text, event.currentTarget as Element);
    setCopied(true);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setCopied(false), COPIED_SECONDS * 1000);
  };
  const words = parts.label ?? "Copy";
  return (
    <Button
      look={parts.look ?? "plain"} icon={copied ? "check" : "copy"} class="sx-copy" disabled={parts.text === ""}
      onClick={(event) => void onClick(event)}
      {...(parts.name === undefined ? {} : { "aria-label": copied ? "Copied" : parts.name })}
    >
      <span class="sx-copy-words">
        <span class={copied ? "sx-away" : ""}>{words}</span>
        <span class={copied ? "" : "sx-away"} role="status">{copied ? "Copied" : ""}</span>
      </span>
    </Button>
  );
}

/** Put text on the clipboard; pages without the Clipboard API (plain http) use the older way. */
export async function copyText(text: string, near: Element): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "sx-unseen";
    (near.closest(".sx") ?? document.body).append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    if (near instanceof HTMLElement) near.focus();
  }
}
