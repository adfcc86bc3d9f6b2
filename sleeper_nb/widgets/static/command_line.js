// @ts-check
// A command with a button that copies it. All text becomes text nodes. No network, no build step.

/**
 * @typedef {{
 *   get(name: string): any, on(name: string, call: () => void): void, off(name: string, call: () => void): void,
 * }} Model
 */

const SHOWN = 2000; // milliseconds for which the answer is shown

/** Copy a text where the page may not use the clipboard: not on https or localhost, or in a frame without the right.
 * @param {HTMLElement} place @returns {boolean} whether it was copied */
function copySelected(place) {
    const range = document.createRange();
    range.selectNodeContents(place);
    const selection = window.getSelection();
    selection?.removeAllRanges();
    selection?.addRange(range);
    return document.execCommand('copy');
}

/** @param {{model: Model, el: HTMLElement}} given */
export function render({model, el}) {
    const row = document.createElement('div');
    const [word, code, status] = ['span', 'code', 'span'].map(tag => document.createElement(tag));
    const button = document.createElement('button');
    row.className = 'sleeper-command';
    button.type = 'button';
    button.textContent = 'Copy';
    button.setAttribute('data-lm-suppress-shortcuts', 'true');
    status.setAttribute('role', 'status');
    row.append(word, code, button, status);
    el.append(row);
    let timer = 0;

    const update = () => {
        word.textContent = model.get('word');
        code.textContent = model.get('line');
        row.hidden = !model.get('line');
        button.setAttribute('aria-label', `Copy ${model.get('line')}`);
        status.textContent = '';
    };
    /** @param {string} text */
    const answer = text => {
        status.textContent = text;
        clearTimeout(timer);
        timer = setTimeout(() => {
            status.textContent = '';
        }, SHOWN);
    };
    button.addEventListener('click', async () => {
        try {
            await navigator.clipboard.writeText(model.get('line'));
            answer('copied');
        } catch {
            answer(copySelected(code) ? 'copied' : 'selected: press Ctrl+C');
        }
    });
    model.on('change:line', update);
    model.on('change:word', update);
    update();
    return () => {
        model.off('change:line', update);
        model.off('change:word', update);
        clearTimeout(timer);
    };
}

export default {render};
